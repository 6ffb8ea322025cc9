package tree

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// Tree is the process tree of one run. It is not safe for concurrent use: the
// goroutine that runs the Watchdog owns it.
type Tree struct {
	reader
	root     int32
	byParent bool  // no proc of its own: descendants of root in the caller's proc
	born     int64 // of root, when walking: its pid may be reused

	cur, prev []process // sorted by pid
	pids      []int32
	lost      []int32 // pids in prev that are no more
	late      []process
	order     []int32

	user, system time.Duration // never decrease
	unreaped     int64         // ticks
	unreapedUser int64         // its part
	page         int64
	memfds       memfds
	lastPSS      Sample // the last one with PSS
	beside       beside
	handled
}

// handled is whom a signal was sent to.
type handled struct {
	signalled   map[identity]bool // by the Signal that is going on
	doomed      []identity        // killed by Trim
	stopAbove   int
	stoppedFast []int32    // by stopFast, and still to be remembered as stopped
	stopped     []identity // by Stop, and to be woken by Continue
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
	t.byParent = true
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
	return &Tree{reader: reader{dir: dir}, root: root, page: int64(os.Getpagesize()), handled: handled{signalled: map[identity]bool{}}}
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
	if t.byParent {
		var err error
		if t.pids, err = t.descend(t.root, t.born, t.pids); err != nil {
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

// descend appends root, if it is still the one that was born then, and its descendants.
func (r *reader) descend(root int32, born int64, pids []int32) ([]int32, error) {
	var s stat
	if err := r.stat(root, &s); gone(err) || err == nil && s.start != born {
		return pids, nil // nobody is left; Sample says so
	} else if err != nil {
		return pids, err
	}
	pids = append(pids, root)
	for i := 0; i < len(pids); i++ {
		var err error
		pids, err = r.children(pids[i], pids)
		if errors.Is(err, unix.ENOENT) && i == 0 {
			return r.scan(root, pids[:0]) // a kernel without CONFIG_PROC_CHILDREN
		}
		if err != nil && !gone(err) {
			return pids, fmt.Errorf("read \"/proc/%d/task/*/children\": %w", pids[i], err)
		}
	}
	return pids, nil
}

// children appends the children of every thread of a process.
func (r *reader) children(pid int32, pids []int32) ([]int32, error) {
	var err error
	if r.tids, err = r.threads(pid, r.tids[:0]); err != nil {
		return pids, err
	}
	for _, tid := range r.tids {
		// Any thread can be looked up by its own number, though it isn't listed.
		text, e := r.file(tid, "task/"+strconv.Itoa(int(tid))+"/children")
		if e != nil {
			err = e
			continue
		}
		pids = appendChildren(pids, text)
	}
	return pids, err
}

// scan appends root and its descendants, by the parents of all processes there are.
func (r *reader) scan(root int32, pids []int32) ([]int32, error) {
	if _, err := unix.Seek(r.dir, 0, 0); err != nil {
		return pids, fmt.Errorf("lseek in \"/proc\": %w", err)
	}
	var err error
	if r.tids, err = r.list(r.dir, r.tids[:0]); err != nil {
		return pids, fmt.Errorf("getdents64 of \"/proc\": %w", err)
	}
	parents := make([]stat, 0, len(r.tids))
	for _, pid := range r.tids {
		var s stat
		if err := r.stat(pid, &s); err == nil {
			parents = append(parents, s)
		} else if !gone(err) {
			return pids, err
		}
	}
	return descendants(pids, root, parents), nil
}

// descendants appends root and everyone below it.
func descendants(pids []int32, root int32, all []stat) []int32 {
	slices.SortFunc(all, func(a, b stat) int { return int(a.ppid - b.ppid) })
	pids = append(pids, root)
	for i := 0; i < len(pids) && i <= len(all); i++ {
		at, _ := slices.BinarySearchFunc(all, pids[i], func(s stat, pid int32) int { return int(s.ppid - pid) })
		for ; at < len(all) && all[at].ppid == pids[i]; at++ {
			pids = append(pids, all[at].pid)
		}
	}
	return pids
}

// Descriptors is how many one process has, of those that the last sample has seen: the most.
// Whom nobody may look into has none.
func (t *Tree) Descriptors() (most int64) {
	for i := range t.cur {
		if p := &t.cur[i]; !p.root && !p.dead() {
			most = max(most, t.descriptorCount(p.thread()))
		}
	}
	return most
}

// descriptorCount is the number of names in PID/fd.
func (r *reader) descriptorCount(pid int32) (n int64) {
	fd, err := r.open(pid, "fd", flagsDir)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	for _, err := range linux.Dirents(fd, r.room()) {
		if err != nil {
			break
		}
		n++
	}
	return n
}
