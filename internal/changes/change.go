package changes

import (
	"cmp"
	"strings"
)

// Kind is how a path differs.
type Kind string

const (
	Added    Kind = "added"
	Modified Kind = "modified" // content or type
	Deleted  Kind = "deleted"
	ModeOnly Kind = "mode" // permission bits, owner or user.* attributes
	// Relinked is a symbolic link with another target, or something that became
	// a symbolic link or ceased to be one. A new one is Added.
	Relinked Kind = "link"
)

// Type is what stands at a path.
type Type string

const (
	Absent  Type = ""
	File    Type = "file"
	Dir     Type = "dir"
	Symlink Type = "symlink"
	FIFO    Type = "fifo"
	Socket  Type = "socket"
	Device  Type = "device"
)

// special is what is never made in a real tree.
func (t Type) special() bool { return t == FIFO || t == Socket || t == Device }

// Change is one path that differs.
type Change struct {
	Tree int    `json:"tree"` // index of the tree in the run
	Path string `json:"path"` // below the tree, bytes as they are
	Kind Kind   `json:"kind"`
	Type Type   `json:"type"`          // what is there now; of a deletion, what was
	Was  Type   `json:"was,omitempty"` // what was there; Absent if added

	Mode      uint32 `json:"mode"` // permission bits with 07000, as the run left them
	OldMode   uint32 `json:"old_mode,omitempty"`
	UID       uint32 `json:"uid"`
	GID       uint32 `json:"gid"`
	OldUID    uint32 `json:"old_uid,omitempty"`
	OldGID    uint32 `json:"old_gid,omitempty"`
	Size      int64  `json:"size"`
	OldSize   int64  `json:"old_size,omitempty"`
	MTime     int64  `json:"mtime"` // nanoseconds since 1970
	Target    string `json:"target,omitempty"`
	OldTarget string `json:"old_target,omitempty"`
	// Link is another name of the same file: one whose content isn't changed, if there is
	// such a one, or else the first in order.
	Link string `json:"link,omitempty"`
	// OldLinks is how many names the real file had, if more than this one: the run
	// changed this one only.
	OldLinks uint64 `json:"old_links,omitempty"`
}

// now is what is at the path after the run.
func (c *Change) now() Type {
	if c.Kind == Deleted {
		return Absent
	}
	return c.Type
}

// Summary counts changes.
type Summary struct {
	Added    int   `json:"added"`
	Modified int   `json:"modified"`
	Deleted  int   `json:"deleted"`
	Mode     int   `json:"mode"`
	Link     int   `json:"link"`
	Bytes    int64 `json:"bytes"` // of files added and modified
}

func (s *Summary) add(c *Change) {
	switch c.Kind {
	case Added:
		s.Added++
	case Modified:
		s.Modified++
	case Deleted:
		s.Deleted++
	case ModeOnly:
		s.Mode++
	case Relinked:
		s.Link++
	}
	if c.Type == File && (c.Kind == Added || c.Kind == Modified) {
		s.Bytes += c.Size
	}
}

// Set is the changes of one tree.
type Set struct {
	Changes []Change // in the order of a walk: a directory, what is below, the next name
	// Truncated counts at least as many paths as were left out, beyond Limits.
	Truncated int
	// Deep counts, at least, those that no system call takes: longer than PATH_MAX. All of
	// them are below DeepIn.
	Deep    int
	DeepIn  string
	Summary Summary // of all, also of those left out as far as they were seen
}

// Limits bound what a hostile tree makes of a Set.
type Limits struct {
	Changes   int // 0: 100,000
	PathBytes int // of all paths and targets of symbolic links together; 0: 16 MiB
}

func (l Limits) orDefault() Limits {
	l.Changes = cmp.Or(l.Changes, 100_000)
	l.PathBytes = cmp.Or(l.PathBytes, 16<<20)
	return l
}

// Tree is one tree that a run saw through an overlay.
type Tree struct {
	Path  string // of the real tree, absolute, without symbolic links
	Upper int    // the overlay's upper directory, O_RDONLY|O_DIRECTORY
	Under []int  // directories that were uppers before, between that and the real tree; the highest first, the same
	Lower int    // the real tree, the same
}

// uppers are what was written, the last first.
func (t *Tree) uppers() []int { return append([]int{t.Upper}, t.Under...) }

// comparePaths orders paths as a walk does: "/" before any other byte.
func comparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x == '/' || y != '/' && x < y {
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}

// below: path is dir, or in it.
func below(path, dir string) bool {
	return dir == "" || path == dir || len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir
}

// split gives the directory, "" for the tree's own, and the last component.
func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// common is the directory that both a and b are, or are in.
func common(a, b string) string {
	for !below(b, a) {
		a, _ = split(a)
	}
	return a
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// join2 joins a path and what may be nothing.
func join2(path, rel string) string {
	if rel == "" {
		return path
	}
	return path + "/" + rel
}
