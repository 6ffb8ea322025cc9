// Package selftest tries the built-in escape attempts of package attempts on this
// host, under a policy, and says of each whether it was held.
//
// Each attempt is made twice: outside, where it has to work, or it says nothing
// about this host, and inside, where it must not. There are three processes:
//
//	the command line   makes the scene and waits
//	the caller         runs everything: a process with what callers have and must not
//	                   pass on, namely a terminal, a key, a variable, descriptors
//	an attempt         the same binary again, outside and inside
//
// What ends otherwise than an attempt ends counts as not held: a wall that can't
// be told from an accident is none. An attempt whose walls the plan's ledger
// doesn't give as effective is foretold to fail; it is made all the same.
//
// What it doesn't show: that there are no other ways out, and anything about the
// kernel's own mistakes.
package selftest
