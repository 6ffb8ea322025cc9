//go:build !confinecover

// Package early turns the process into the child, if that is what it was
// started as, before the packages that a child doesn't need are initialised.
//
// Go initialises packages in the order of their import paths as soon as their
// dependencies are ready. This one needs little and sorts before ours and before
// every library that the command line needs, so a __child never pays for those
// (measured: half a millisecond of a start of one and a half).
package early

import "github.com/confine-run/confine/child"

func init() {
	if child.Called() {
		child.Main()
	}
}
