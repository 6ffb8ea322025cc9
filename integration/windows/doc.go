// Package windows has the tests of the built program on Windows. Those of what Wine does honestly run under Wine as well, by package wine; the
// others say "windows", a word of CONFINE_MUST_RUN, and run on Windows alone.
package windows
