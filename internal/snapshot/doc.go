// Package snapshot keeps what is in the files of sandboxes, in a directory that is an OCI image layout.
//
//	Add      uppers and private places → a layer on those of the parent → a manifest; its digest is the ID
//	Trees    ID → each layer as a directory that overlayfs takes as a lower one, unpacked once and shared
//	Export   ID → a bundle: a tar of a layout with this snapshot alone
//	Import   a bundle of anybody's → ID
//	Remove   drops blobs and trees that no other snapshot needs, and that no sandbox holds
//
// A snapshot is files and what they say about themselves: no processes, no memory. What no layer holds is counted, if it is a
// FIFO, a socket or a device (see Left), and refused by its name, if it is anything else: names that begin with ".wh.", paths of more than
// PATH_MAX, redirects of overlayfs. What is mounted in a place is none of it.
//
// # The directory
//
//	oci-layout, index.json   what is kept, with its names; replaced by rename, last of all
//	blobs/sha256/DIGEST      manifests, configurations, and layers as tars that aren't compressed
//	trees/DIGEST             layers that were unpacked. They can be removed when nobody holds them
//	.lock                    who changes any of that holds a lock on it
//	.unfinished-…            what is being made; without a lock on it, its maker has died, and the next one removes it
//
// So what is found is whole, whoever was killed and when. Every document and every layer is held against its digest as it is
// read, but for a tree that was unpacked before: the directory is the user's alone.
//
// # A layer
//
// It is a tar of POSIX (pax) with names below "/" as the sandbox saw them, in an order that depends on nothing else: the same files
// are the same layer. Whiteouts are those of OCI: ".wh.NAME", and ".wh..wh..opq" right after a directory. Attributes are user.* and
// access control lists, as SCHILY.xattr. The bits 06000 are in it, and are never set again; owners are set again by root alone.
// Runs of zeros are holes, by GNU.sparse.map (0.1): archive/tar reads those, and doesn't write them, and skips none of them, so that headers
// are written here, and the data are read beside its Reader.
//
// A tree has whiteouts as devices 0/0; where the store lies on an overlayfs, which refuses those, as files with an attribute, which
// Linux 6.7 knows.
//
// A directory between "/" and a place is in no layer. It is made with the mode 0755 in a tree, which counts where it lies in a place
// that is around another one, and was not changed there itself.
//
// # Whom it trusts
//
// A hostile program filled the places, but nobody writes to them any more. They are read by descriptor, through no link,
// and what is closed to its owner is opened for as long as it is read. A bundle comes from anybody: its documents have to be, byte for byte,
// what this program would write, each layer is unpacked into an empty directory where nothing is ever replaced or followed, and all of it is bounded
// by Limits. Until all of it was checked, nothing of it is in the store.
//
// # The order to read
//
// snapshot.go has the words, documents.go and tar.go what is on the disk; store_linux.go the directory; add_linux.go and
// extents_linux.go write a layer; unpack_linux.go and trees_linux.go make a tree of it; bundle_linux.go takes it elsewhere.
package snapshot
