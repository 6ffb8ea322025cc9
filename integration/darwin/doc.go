// Package darwin has the tests of the built program on macOS. Each says "macos", a word of CONFINE_MUST_RUN, where it would be skipped: in a sandbox there
// is no other.
package darwin
