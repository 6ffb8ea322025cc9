// Package boxfiles gives the files of a sandbox to those outside of it: by descriptor, from that of its root directory, as the user
// that its processes are. Its mounts hold for them as for the processes inside: what is hidden or read-only there is so here.
//
// Nothing is trusted that is inside. Every name is resolved once, within the root (openat2 with RESOLVE_IN_ROOT), to a
// descriptor, and what is done is done to that. FIFOs and devices are never opened, nor are files of /proc and /sys, which
// tell of the process that opens them.
package boxfiles
