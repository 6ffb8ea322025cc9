//go:build !unix

package learn

// Writable is for nobody here: there is no learning.
func Writable(string) bool { return true }
