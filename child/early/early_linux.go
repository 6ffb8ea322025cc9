//go:build !confinecover

// Package early turns the process into the child, if that is what it was
// started as, before the packages that a child doesn't need are initialised.
//
// Go initialises packages in the order of their import paths as soon as their
// dependencies are ready. This one waits for golang.org/x/sys/unix, and so for
// most of the standard library, but sorts before ours, before net/… and before
// main: a __child pays for none of what only the command line needs. See it with
// GODEBUG=inittrace=1.
package early

import "github.com/confine-run/confine/child"

func init() {
	if child.Called() {
		child.Main()
	}
}
