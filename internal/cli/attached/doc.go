// Package attached connects the caller's streams, terminal and signals to a command in a sandbox of its own, by the seam alone: it is for
// backends that connect nothing themselves.
package attached
