// Package root builds the root of a sandbox from the mount table of its plan, goes there, and holds what
// came of it against the kernel's own table.
//
// steps in root_linux.go is the order. Each entry of the table is one case in mount_linux.go. Where things
// are put is place_linux.go: a path is resolved once, to a descriptor or in directories that were made
// here, no link is followed, and nothing is ever made in a tree of the caller's. What takes away from
// what is mounted already is mask_linux.go. A tree of the caller's as the root is image_linux.go, the
// host's /etc beneath the run's own files beneath_linux.go, and what a fresh proc is for besides
// processes proc_linux.go. What other boxes have left below what is written here, and this one hands out, is
// layers_linux.go. Before Linux 5.12 attributes are set in another way: restrict_linux.go.
package root
