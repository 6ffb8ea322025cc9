package rootfs

import "io/fs"

// Host is what the table needs to be told about the host. Errors carry errnos.
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
