package cgroup

import (
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hierarchy"
)

// here is what Make has to know of this machine and process. The names of the
// files are fields for the tests.
type here struct {
	proc  string // where proc is mounted
	run   string // "/run"
	euid  int
	owner owner
}

func thisProcess() *here {
	h := &here{proc: "/proc", run: "/run", euid: os.Geteuid()}
	h.owner = thisOwner()
	return h
}

// thisOwner can't change while the process lives.
var thisOwner = sync.OnceValue(func() owner {
	o := owner{pid: os.Getpid()}
	var buf [1024]byte
	stat, err := readFile(unix.AT_FDCWD, "/proc/self/stat", buf[:])
	if err != nil {
		return o
	}
	_, start, ok := startOf(string(stat))
	if !ok {
		return o
	}
	o.start = start
	var ns unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &ns) != nil {
		return o
	}
	o.spaces = ns.Ino << 32
	if unix.Stat("/proc/self/ns/time", &ns) == nil { // Linux 5.6
		o.spaces |= ns.Ino & (1<<32 - 1)
	}
	return o
})

// places are the directories in all hierarchies of a process: "self", or a pid.
func (h *here) places(of string) ([]hierarchy.Dir, *Error) {
	var texts [2]string
	for i, name := range [...]string{h.proc + "/" + of + "/cgroup", h.proc + "/self/mountinfo"} {
		b, err := readWhole(name)
		if err != nil {
			return nil, failed("", "read", name, err)
		}
		texts[i] = string(b)
	}
	return hierarchy.Dirs(texts[0], texts[1]), nil
}

// readWhole reads a file of proc to its end: mountinfo comes in pieces.
func readWhole(name string) ([]byte, error) {
	fd, err := openAt(unix.AT_FDCWD, name, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, 0, 4096)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, make([]byte, len(buf))...)[:len(buf)]
		}
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return buf, err
		}
		buf = buf[:len(buf)+n]
	}
}

// process reads of another process who its parent is and when it started. Not ok: it
// is not to be seen, or proc is not that of the own pid namespace.
func (h *here) process(pid int) (ppid int, start int64, ok bool) {
	if self, err := os.Readlink(h.proc + "/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return 0, 0, false
	}
	stat, err := readWhole(h.proc + "/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	return startOf(string(stat))
}

// statfs says what kind of file system a directory is of, and whether it is
// mounted read-only.
func statfs(fd int) (kind int64, readOnly bool, err error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(fd, &s); err != nil {
		return 0, false, err
	}
	return int64(s.Type), s.Flags&unix.ST_RDONLY != 0, nil
}
