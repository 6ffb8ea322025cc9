package cgroup

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Group is the cgroup of one run: a directory of v2, or one in each hierarchy of
// v1 that is needed. It is safe for concurrent use.
type Group struct {
	source  Source
	version int
	name    string // of its directories
	dirs    []*dir
	memory  int64         // the limit
	holds   []hold        // the limits that were asked for
	undo    func() *Error // what Make did around the directories

	mu    sync.Mutex // guards what is below
	files []opened
	buf   []byte
	stat  Stat // so that none is allocated for each call
	oom   *oomWatch
	gone  bool
}

// opened is a reading in one directory.
type opened struct {
	reading
	dir *dir
	fd  int // notOpened, absent
}

const (
	notOpened = -1
	absent    = -2
)

func (g *Group) reads(d *dir, table []reading) {
	for _, r := range table {
		g.files = append(g.files, opened{r, d, notOpened})
	}
}

// in is the directory in the hierarchy of a controller of v1, or nil.
func (g *Group) in(c Controller) *dir {
	for _, d := range g.dirs {
		if slices.Contains(d.controllers, string(c)) {
			return d
		}
	}
	return nil
}

// limit sets a limit.
func (g *Group) limit(d *dir, c *control, l Limits) {
	err := c.limit(d, l)
	g.holds = append(g.holds, hold{c.name, err})
	if c.name == Memory && err == nil {
		g.oom = c.watchOOM(d)
	}
}

// Source is where it came from.
func (g *Group) Source() Source { return g.source }

// GoesWithInit: systemd removes a scope, with what was counted in it, when its last
// process ends, and that is the anchor.
func (g *Group) GoesWithInit() bool { return g.source == SystemdUser || g.source == SystemdSystem }

// Version is that of its hierarchies: 1 or 2.
func (g *Group) Version() int { return g.version }

// Path is its directory; in v1, the first of them.
func (g *Group) Path() string { return g.dirs[0].path }

// Paths are all of its directories.
func (g *Group) Paths() (all []string) {
	for _, d := range g.dirs {
		all = append(all, d.path)
	}
	return all
}

// Views are its directories that programs inside look at.
func (g *Group) Views() (all []View) {
	for _, d := range g.dirs {
		v, ok := View{Path: d.path, At: viewRoot}, true
		if g.version == 1 {
			v, ok = view1(d.path, d.controllers)
		}
		var st unix.Stat_t
		if !ok || unix.Fstatat(d.parent.fd, d.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		v.Dev, v.Ino = uint64(st.Dev), st.Ino
		all = append(all, v)
	}
	return all
}

// Holds says that a limit of this controller was asked for, and that the kernel took it. Without that the
// error says why not, if it was asked for.
func (g *Group) Holds(c Controller) (ok bool, err error) {
	for _, h := range g.holds {
		if h.controller == c {
			return h.err == nil, h.err
		}
	}
	return false, nil
}

// Join is how a process becomes a member.
//
// dir, of v2 only, else -1, is for clone3 with CLONE_INTO_CGROUP. Whoever calls it
// has to be allowed to write cgroup.procs there and in the directory that both have
// in common. Where cgroup2 is mounted with nsdelegate, it must also not have left
// for a cgroup namespace of its own: the kernel then says ENOENT.
//
// procs are descriptors of cgroup.procs, or in v1 of tasks, one for each hierarchy: a
// process of one thread that writes "0" into all of them is in the group. The kernel
// judges that by who opened them (since Linux 5.16, and in stable ones before), so
// that the process itself needs no permission, and may be in a cgroup namespace of
// its own. In v2 it is the slower way by milliseconds.
//
// All of them are the group's: Remove closes them.
func (g *Group) Join() (dir int, procs []int) {
	dir = -1
	if g.version == 2 {
		dir = g.dirs[0].fd
	}
	for _, d := range g.dirs {
		procs = append(procs, d.procs)
	}
	return dir, procs
}

// Stat reads what was used so far. A file that can't be read leaves its numbers
// unknown.
func (g *Group) Stat() Stat {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stat = Stat{}
	for i := range g.files {
		if b := g.read(&g.files[i]); b != nil {
			g.files[i].into(&g.stat, b)
		}
	}
	return g.stat
}

// CPUTime is Stat().CPU alone, for whoever asks often.
func (g *Group) CPUTime() (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stat = Stat{}
	for i := range g.files {
		f := &g.files[i]
		if f.name != "cpuacct.usage" && (f.name != "cpu.stat" || g.version != 2) {
			continue
		}
		if b := g.read(f); b != nil {
			f.into(&g.stat, b)
		}
	}
	return g.stat.CPU.D, g.stat.CPU.Known
}

func (g *Group) read(f *opened) []byte {
	if g.gone || f.fd == absent {
		return nil
	}
	if f.fd == notOpened {
		fd, err := f.dir.open(f.name, flagsRead)
		if err != nil {
			f.fd = absent
			return nil
		}
		f.fd = fd
	}
	if len(g.buf) == 0 {
		g.buf = make([]byte, 4096) // what the kernel gives at once
	}
	b, err := readStart(f.fd, g.buf)
	if err != nil {
		return nil
	}
	return b
}

// close closes every descriptor.
func (g *Group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.files {
		if g.files[i].fd >= 0 {
			_ = unix.Close(g.files[i].fd)
		}
	}
	for _, d := range g.dirs {
		d.close()
		d.parent.close()
	}
}
