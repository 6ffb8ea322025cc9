//go:build !linux || confinecover

// Package early does nothing here: there is no child, or, in a build for
// coverage, it begins in main, after the counters are ready.
package early
