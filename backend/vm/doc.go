// Package vm is the backend of machines: sandboxes of processes under a kernel of their own.
//
//	host                                   around QEMU                        the guest
//	Backend.Open
//	  the kernel, its modules, and this
//	  program as init: an initramfs
//	  process.Backend, of a policy that
//	  shows, limits and lets reach what
//	  was asked for (outer)            →   a sandbox of processes, with
//	                                       QEMU in it, as nobody, with the
//	                                       same files, network and limits   →  guest.Main is init
//	  conn: package wire, over QEMU's                                          its root is the sandbox's, over 9p
//	  standard input and output        ←—————————— virtio-serial ——————————→   process.Backend, of the same policy
//	                                                                           once more (inner): the processes
//
// So there are two walls, and the outer is the host's: what of the files is shown, what of the network is reached (QEMU's own
// network is in the network namespace of the sandbox, and its connections go through the gateway), how much of memory and CPU there is, holds
// whatever the guest does, its kernel included. The inner one has the limits as they were asked for, which the outer can't count: a process
// of the guest is none of the host's.
//
// # Whom to believe
//
// The guest is hostile. It says how processes ended and what was denied, and may lie about that, as a program may lie about
// its exit code; it is not asked whether it is still confined. What it says has a length, an order and a rate that it can't change (package wire);
// whoever breaks them ends the machine, and the report says what was broken. A guest that says nothing is ended by the clocks of the host.
//
// # Current limitations
//
// Only x86-64. Where KVM doesn't boot a machine it is emulated: it takes some seconds to boot, and its processes run an order of magnitude slower.
package vm
