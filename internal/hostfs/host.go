// Package hostfs asks the host's file system what a plan has to know: what is at a path, where its
// links lead, what is mounted, where sockets were bound. It changes nothing, and opens nothing that
// it reads no text from.
//
// [Host] is the interface, so that plans are tested on trees in memory (hosttest); [This] is the
// kernel's. [Trace] walks a name link by link, for those who have to know who could change the way.
package hostfs

import (
	"errors"
	"io/fs"
	"syscall"
)

// Host answers questions about files. Errors carry errnos.
type Host interface {
	// As lets what follows on this thread see no more than that user can, until
	// leave. other says that this is not the user who asks.
	As(uid, gid uint32) (leave func(), other bool, err error)
	// Resolve follows path to a descriptor, once, and says what that is.
	Resolve(path string) (File, error)
	// Lstat says what is at path, a last link not followed. The path is as given.
	Lstat(path string) (File, error)
	// Readlink fails when path is no symbolic link.
	Readlink(path string) (string, error)
	ReadDir(path string) ([]Entry, error)
	// ReadFile reads a regular file of at most limit bytes; a larger one is EFBIG.
	ReadFile(path string, limit int) (string, error)
	// Held tells, as far as this process can try, whether the kernel refuses to show a
	// canonical path without what is mounted below it.
	Held(dir string) bool
	// Sockets are those of this network that were bound to files.
	Sockets() ([]Socket, error)
}

// File is something that a descriptor was opened on.
type File struct {
	Path     string // canonical
	Dev, Ino uint64
	Mode     fs.FileMode
	Names    uint64 // how many names it has; only Lstat says
	Born     int64  // when it was made, in nanoseconds, which only Lstat says; 0: the file system doesn't
}

// Entry is one name in a directory.
type Entry struct {
	Name string
	Type fs.FileMode // as fs.FileMode.Type
}

// Absent: nothing is there, as opposed to something that can't be reached.
func Absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// Denied says whether this user may not.
func Denied(err error) bool { return errors.Is(err, fs.ErrPermission) }

// Socket is one of the host's that was bound to a file.
type Socket struct {
	Name string // what it was bound to: an absolute path or a relative one, then of old
	// Ino and Dev are the file's, as the kernel knows it: the lower half of the inode's
	// number, and the device of its mount. They stay when it is renamed. Ino 0 is not known.
	Ino, Dev uint32
	UID      int64 // of whoever made it; -1 is not known
}

// Inspector is a Host that knows of a file what decides about opening it.
type Inspector interface {
	Host
	// Inspect is Lstat, and more.
	Inspect(path string) (Inode, error)
}

// Inode is what the kernel asks of a file.
type Inode struct {
	File
	UID, GID uint32
	ACL      []byte // system.posix_acl_access; nil is none
	// DefaultACL is of a directory: system.posix_acl_default.
	DefaultACL []byte
	// Of the mount that it was reached through.
	ReadOnly, NoExec, NoDev bool
}
