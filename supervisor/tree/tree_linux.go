package tree

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Tree is the process tree of one run. It is not safe for concurrent use: the
// goroutine that runs the Watchdog owns it.
type Tree struct {
	reader
	root int32
	walk bool  // no proc of its own: descendants of root in the caller's proc
	born int64 // of root, when walking: its pid may be reused

	cur, prev []process // sorted by pid
	pids      []int32
	tids      []int32
	lost      []int32 // pids in prev that are no more
	late      []process
	order     []int32

	user, system time.Duration // never decrease
	unreaped     int64         // ticks
	unreapedUser int64         // its part
	page         int64
	memfds       memfds
	weighed      Sample // the last one with PSS
	beside       beside

	signalled map[identity]bool // by the Signal that is going on
	doomed    []identity        // killed by Trim
	rushAbove int
	rushed    []int32    // by rush, and still to be remembered as stopped
	stopped   []identity // by Stop, and to be woken by Continue
}

// New makes the tree of the pid namespace that the proc at procfd shows; its
// root directory, O_PATH or readable. The descriptor stays the caller's.
func New(procfd int) (*Tree, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(procfd, &fs); err != nil {
		return nil, fmt.Errorf("fstatfs: %w", err)
	}
	if fs.Type != unix.PROC_SUPER_MAGIC {
		return nil, fmt.Errorf("fstatfs: not a proc but file system %#x: %w", fs.Type, unix.ENOTDIR)
	}
	fd, err := unix.Openat(procfd, ".", flagsDir, 0)
	if err != nil {
		return nil, fmt.Errorf("openat the proc inside: %w", err)
	}
	return newTree(fd, 1), nil
}

// NewFromPID makes the tree of all descendants of pid in the caller's /proc.
// That process must be PID 1 of the run or a child subreaper: descendants
// that lose their parent must stay its descendants.
func NewFromPID(pid int) (*Tree, error) {
	fd, err := unix.Open("/proc", flagsDir, 0)
	if err != nil {
		return nil, fmt.Errorf("open \"/proc\": %w", err)
	}
	t := newTree(fd, int32(pid))
	t.walk = true
	var s stat
	if err := t.stat(t.root, &s); err != nil {
		t.Close()
		if gone(err) {
			err = os.ErrProcessDone
		}
		return nil, fmt.Errorf("read \"/proc/%d/stat\": %w", pid, err)
	}
	t.born = s.start
	return t, nil
}

func newTree(dir int, root int32) *Tree {
	return &Tree{reader: reader{dir: dir}, root: root, page: int64(os.Getpagesize()), signalled: map[identity]bool{}}
}

// Close closes the tree's own descriptor.
func (t *Tree) Close() error {
	_, _ = t.Measured(true)
	fd := t.dir
	t.dir = -1
	if fd < 0 {
		return os.ErrClosed
	}
	return unix.Close(fd)
}

// list fills t.pids, sorted, PID 1 included.
func (t *Tree) list() error {
	t.pids = t.pids[:0]
	if t.walk {
		if err := t.descend(); err != nil {
			return err
		}
	} else {
		if _, err := unix.Seek(t.dir, 0, 0); err != nil {
			return fmt.Errorf("lseek in proc: %w", err)
		}
		var err error
		if t.pids, err = t.reader.list(t.dir, t.pids); err != nil {
			return fmt.Errorf("getdents64 of proc: %w", err)
		}
	}
	if !slices.IsSorted(t.pids) {
		slices.Sort(t.pids)
	}
	t.pids = slices.Compact(t.pids)
	return nil
}
