// Package qemu is the keeper of a machine: the parent of QEMU, which makes what a machine boots with, unpacks its kernel, serves it files
// (package ninep), and has it written down and go on. Package keeper says how the host speaks to it.
package qemu
