// Package arch holds the shape of the whole: which package may import which, and
// why, what each side of a run starts with, and how large a package, a type and a
// function may be. It has tests only.
//
// A test that fails here is a question about the design, not a formality: either
// the new edge is wrong, or the table below it gets a line with the reason.
package arch
