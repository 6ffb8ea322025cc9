// Package darwin has calls of libSystem that golang.org/x/sys lacks: who runs, what each uses, and what the sandbox of a process lets it do. On
// other systems it is empty.
//
// They are called as package syscall calls others, by trampolines of lib_darwin.s, without cgo. The sandbox's are not in any header of Apple's;
// browsers have called them for as long as there has been a sandbox.
package darwin
