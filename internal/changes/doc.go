// Package changes is what a run left in the upper directory of an overlay: it is
// read, kept under the run's id, shown, and copied to the real tree.
//
//	Read     upper + lower   → Set        what differs, in the order of a walk
//	Keep     Set             → Store/ID   new contents, and what the real tree had: the base
//	Diff     Run             → text       names, a patch, or JSON
//	Apply    Run             → real tree  all or nothing
//	Discard  Run                          drops changes; a run without any goes away
//
// # Whom it trusts
//
// The upper directory was written by a hostile program, but nobody writes it any
// more. The real tree is the caller's, and anybody who may write it may do so at
// any moment. The store is the user's own. So every path below a tree is resolved
// by openat2 from the tree's descriptor with RESOLVE_BENEATH and
// RESOLVE_NO_SYMLINKS, and what is done there is done to one component of a
// directory that is open. Names are bytes: they may hold anything but "/" and NUL.
//
// # What counts as a change
//
// Content, type, the target of a symbolic link, permission bits, owner, access control
// lists and the user.* attributes. A file that was merely copied up, or touched, is no change.
// Not seen: file capabilities, times alone, the tree's own root.
//
// A new name of a file, changed or not, is a hard link. A file that had several names in
// the tree is one of its own after it was changed, as overlayfs has it; the others, which may
// be anywhere, keep the old content. Both sides say so: see entry.go and stage_linux.go.
//
// A digest is SHA-256 over the 4 KiB blocks that aren't all zero, each after its
// offset, and then the size: it says the same about a sparse file and its full
// twin, and costs what was written and not what the size claims.
//
// # How a change reaches the tree
//
// Each change becomes one rename of one name in a directory that exists before and
// after: put (a temporary name → the name), swap (the two exchanged), remove (the
// name → a temporary one); or the setting of one object's mode. New directories are
// built whole under the temporary name. So any number of steps can be taken or
// undone in any order, and what was there is kept, itself, until the end.
//
//	check      every path: real == base, or real == new; else a conflict
//	staging    journal.staging names the temporary names; contents are written, fsynced
//	committed  journal.committed has the inodes on both sides; the steps, or each back when one fails
//	done       what was replaced is deleted, the record shortened, the journal removed
//
// After a crash only done goes on; staging and committed go back, by what undoes a failed step. Which steps
// were taken is told by inode numbers and times of birth: device numbers change at a
// reboot. What somebody else has put in the way since is left alone and named, to
// Store.OnRecovered. Options.Context can end an apply before the commit, nothing after it.
//
// An ordinary user's own directory that is closed to its owner (0555) is opened for as
// long as things are done in it, and closed again, after a crash too; to others it is never more open
// than it was. Another user's takes nothing: the apply fails, and undoes. Owners are set
// by root alone, and the bits 06000 of a file by nobody: see entry.go.
//
// The file system has to know RENAME_EXCHANGE and RENAME_NOREPLACE (ext4, xfs, btrfs,
// tmpfs, f2fs, overlayfs; not NFS): without, apply fails and undoes. A program that
// has a replaced file open for writing goes on writing the replaced one. A directory
// that is moved out of the tree between two steps takes a step's result along: that is
// the mover's own doing, with rights that the mover had.
//
// # The order to read
//
// change.go has the words; read_linux.go, keep_linux.go and manifest.go what a run left, and its record;
// store_linux.go where that is; diff.go how it is shown. An apply is apply_linux.go, refuse.go, check_linux.go,
// stage_linux.go and steps_linux.go, in this order, on the trees of trees_linux.go; journal_linux.go recovers after a crash.
package changes
