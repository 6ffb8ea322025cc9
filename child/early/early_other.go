//go:build !linux

package early
