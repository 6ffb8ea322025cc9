// Package image makes trees of files of images: an OCI image layout (a directory,
// or a tar of one), or a plain tar. No daemon and no privilege is needed. What is
// unpacked is kept by its digest, and every later run shares it.
//
// An image may be hostile. Everything in it is reached by descriptor, with links
// resolved within the tree (openat2, RESOLVE_IN_ROOT), so that no name, link or
// hard link leads out of it. Names with ".." refuse the whole image. Devices and
// FIFOs are left out, set-id bits and owners dropped, digests verified, and
// the number of files and bytes is bounded. A tree gets its name when it is
// complete; one that was interrupted is removed by the next.
//
// What it does not do: check signatures; look whether somebody changed a tree in
// the cache after it was unpacked, which belongs to the caller alone.
package image
