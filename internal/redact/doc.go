// Package redact takes secrets out of command lines and environments before they
// are logged or reported.
//
// It knows secrets by the name that they are given (--password, TOKEN=), by
// where they stand (https://user:secret@host, Authorization: Bearer secret) and
// by the prefixes that their issuers gave them (ghp_, AKIA). It can't know any
// other: a secret as a bare word is printed.
package redact

// Mask stands where a secret was.
const Mask = "***"
