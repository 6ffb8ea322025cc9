// Package image makes trees of files of images: an OCI image layout (a directory,
// or a tar of one), what docker save wrote before version 25, or a plain tar. No daemon and no privilege is needed. What is
// unpacked is kept by its digest, and every later run shares it.
//
// An image may be hostile. Everything in it is reached by descriptor, with links
// resolved within the tree (openat2, RESOLVE_IN_ROOT), so that no name, link or
// hard link leads out of it. Names with ".." refuse the whole image. Devices and
// FIFOs are left out, set-id bits and owners dropped, digests and sizes verified as
// far as they are given (of layers also what is in them), images of
// another processor refused, and
// bounded are the number of names, the bytes of archives and of files with their holes, and
// the disk space, by what is free. Zeros become holes. A tree gets its name when it is
// complete; the end of a context stops the work and removes what there is of it, and
// what was killed in between is removed by the next.
//
// What it does not do: check signatures; look whether somebody changed a tree in
// the cache after it was unpacked, which belongs to the caller alone.
package image
