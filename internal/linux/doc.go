// Package linux has the kernel calls that golang.org/x/sys/unix lacks, and the
// few that have to be made without the Go runtime noticing.
//
// It is a leaf, and imports nothing that starts slowly.
package linux
