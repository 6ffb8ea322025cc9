//go:build unix && !linux

package cli

// isPathOnly: there are no such descriptors here.
func isPathOnly(int) bool { return false }
