// Package keeper is what the host says to the process beside QEMU, in the same sandbox: QEMU's parent (package qemu), which serves files to
// the guest and has QEMU write the machine down.
//
//	host                            keeper                          QEMU
//	standard input, output
//	  Guest: its protocol  ←——————————————————————————————————→   virtio-serial confine.0
//	                                package ninep   ←——————————→   virtio-serial confine.1
//	  Orders: Order, Answer ←————→  QMP             ←——————————→   monitor
//	standard error  ←———————————————————————————————————————————   the console, and what QEMU says
//
// The memory of the machine is the file [Memory] in a private place of the sandbox, and what else there is of it is in another, [Place]. Writing the machine down is: QEMU stops the
// CPUs and writes the state of its devices to [State] (migration with the capability x-ignore-shared), the keeper writes what the guest holds
// of files to [Fids] and the host's word about the machine to [About]. The rest is a snapshot of the sandbox, which has
// the place in it like any other: so it is addressed by content, moved, checked and bounded as one of processes is.
// A sandbox that stands on one has the same files, its own to write, and the keeper has QEMU go on from them.
//
// Keeper and QEMU are in the same walls, and hold the same: nobody believes one more than the other.
package keeper

// Program is the keeper's. It lies in the directory of the program that starts machines, and is started with a Machine and QEMU's own words.
const Program = "confine-vm"
