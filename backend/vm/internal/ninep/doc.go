// Package ninep serves files to a guest, in the protocol 9P2000.L, as Documentation/filesystems/9p.rst of the kernel and
// https://github.com/chaos/diod/blob/master/protocol.md have it.
//
// It is there since QEMU's own server can't be written down: a machine that has mounted files of it can't be migrated. What a guest
// holds here is a table of numbers (fids) with a path each, and a snapshot has that table ([Server.Save]); another server opens them again ([Server.Load]).
//
// The guest is hostile. It can ask for whatever the server itself can open: the walls around the server say what that is, and so what
// a table may name that somebody made by hand. Lengths are compared before anything is read, and nothing is opened that is neither a
// regular file nor a directory. The server's memory, and QEMU's, are files of /proc in the same walls: whoever could open them would need no hole in
// QEMU. So nothing of the kernel's file systems has a name here, and no link leads anywhere.
package ninep
