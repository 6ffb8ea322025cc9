package files

import "time"

// Wish is what a call wants to do with a path.
type Wish string

// The closed set of wishes.
const (
	Look    Wish = "look"    // ask what is there: stat, access, readlink
	Read    Wish = "read"    // open it for reading
	Write   Wish = "write"   // open it for writing, or change what is known of it
	Create  Wish = "create"  // make something of that name
	Remove  Wish = "remove"  // take the name away
	Exec    Wish = "exec"    // execute it
	Connect Wish = "connect" // to a unix socket of that name
	List    Wish = "list"    // a directory: open it, or go there
)

// Access is one path that a call names, and what for.
type Access struct {
	// Path is absolute, as the caller means it: with its directory before it, and without
	// ".", ".." and doubled slashes. Links in it are not followed. It is bytes, not text.
	Path string
	// Relative: the call named it relative to the caller's current directory.
	Relative bool
	Wish     Wish
	Call     string // "openat"
	PID      int    // as seen inside; 0: unknown
	Comm     string
	At       time.Time

	// What was there when it was asked, as the caller sees it. For Create and Remove
	// a link is not followed.
	Exists, IsDir bool
	// Unknown: it could not be looked at, and what was there is not known.
	Unknown bool
	// ReadOnly: of the mount that it is on, or where it isn't there, the directory that it
	// would be in. Asked only for Write, Create and Remove.
	ReadOnly bool
	// InPlace: the directory is there that it would be in. Asked only where it isn't there
	// itself, for Write and Create.
	InPlace bool
	Mode    uint32 // permissions of what exists
}

// Observer is told of accesses while their caller waits: it has to be quick, and is
// called from several goroutines.
type Observer func(Access)

// Peaks are the most that was seen of one process, now and then while it names files:
// what only a process knows of itself while it lives.
type Peaks struct {
	Descriptors int64 // room in its table, which grows and doesn't shrink
}
