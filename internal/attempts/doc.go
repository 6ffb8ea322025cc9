// Package attempts is what a hostile program tries: one thing for each word, the
// same inside and outside. Each bounds by its own arguments what it takes of
// processes, memory and time.
//
// An attempt is a process of its own, since some of them cost it its life. It
// exits with 0 when what it tried worked, with 3 when it was refused, and with 2
// when it could not even be tried. The program integration/attempt takes these
// words from scripts; the binary takes them from the self-test, and from nobody else.
package attempts
