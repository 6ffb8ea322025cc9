package cgroup

import (
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// make2 makes the run's cgroup in a directory of v2.
func (h *here) make2(s site, o *Options) (*Group, *Error) {
	parent, err := openDir(s.v2)
	if err != nil {
		return nil, failed("", "open", s.v2, err)
	}
	in, e := h.enter(parent)
	if e != nil {
		parent.close()
		return nil, e
	}
	h.sweep(parent, new([]string))
	d, err := parent.make(h.owner.name(rand.Uint32()))
	if err != nil {
		parent.close()
		return nil, failed("", "mkdirat", s.v2, err)
	}
	d.markInUse()
	g := &Group{source: s.source, version: 2, memory: o.Limits.Memory, name: d.name, dirs: []*dir{d}, undo: in.restore}
	if e = h.reachable(d); e == nil {
		e = h.enable(in, &o.Limits)
	}
	if e == nil {
		e = g.fill(o.Limits)
	}
	if e != nil {
		_ = g.Remove()
		return nil, e
	}
	return g, nil
}

// fill sets the limits of a group of v2, and opens what a process joins by.
func (g *Group) fill(l Limits) *Error {
	d := g.dirs[0]
	var err error
	if d.fd, err = openAt(d.parent.fd, d.name, flagsDir); err != nil {
		return failed("", "open", d.path, err)
	}
	if d.procs, err = d.open("cgroup.procs", flagsWrite); err != nil {
		return failed("", "open", d.path+"/cgroup.procs", err)
	}
	var buf [256]byte
	have, err := d.file("cgroup.controllers", buf[:])
	if err != nil {
		return failed("", "read", d.path+"/cgroup.controllers", err)
	}
	for i := range controls2 {
		c := &controls2[i]
		there := hasWord(have, string(c.name))
		if there || c.name == CPU {
			g.reads(d, c.files)
		}
		switch {
		case !l.limited(c.name):
		case there:
			g.limit(d, c, l)
		default:
			g.holds = append(g.holds, hold{c.name, &Error{Kind: NoController, Path: d.path, Why: "the controller " + string(c.name) + " is not given to this cgroup"}})
		}
	}
	return nil
}

// reachable: a process that starts where this one is may be moved to d. The
// kernel wants cgroup.procs of the directory that both have in common to be writable,
// so that nobody takes processes out of somebody else's limits.
func (h *here) reachable(d *dir) *Error {
	if h.euid == 0 {
		return nil
	}
	own, e := h.places("self")
	if e != nil {
		return e
	}
	for _, o := range own {
		if !o.V2 {
			continue
		}
		name := common(o.Path, d.path) + "/cgroup.procs"
		if err := unix.Faccessat(unix.AT_FDCWD, name, unix.W_OK, 0); err != nil {
			e := failed("", "access", name, err)
			e.Why = "processes would have to be moved across it"
			return e
		}
	}
	return nil
}

// common is the innermost directory that both are in or at.
func common(a, b string) string {
	for a != "/" && a != b && !strings.HasPrefix(b, a+"/") {
		a = path.Dir(a)
	}
	return strings.TrimSuffix(a, "/")
}

// inner is the parent of a run's cgroup in v2, and what was changed there.
//
// Everybody who makes one there holds a shared lock on the directory until the
// end of the run. Whoever is alone, and can thus lock it exclusively, may put back
// what it changed: the lock of one that was killed is gone with it.
type inner struct {
	dir     *dir
	enabled []string // controllers that were not, before
	self    *dir     // the leaf that this process moved to
}

// lockPatience is for the moment that somebody else needs to put things back. The lock
// is asked for again and again since anybody who can read the directory could hold it for ever.
const lockPatience = 200 * time.Millisecond

func (h *here) enter(d *dir) (*inner, *Error) {
	in := &inner{dir: d}
	for until := time.Now().Add(lockPatience); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(d.fd, unix.LOCK_SH|unix.LOCK_NB)
		if err == nil {
			return in, nil
		}
		if err != unix.EINTR && (err != unix.EWOULDBLOCK || time.Now().After(until)) {
			e := failed("", "flock", d.path, err)
			e.Kind = Failed
			return nil, e
		}
	}
}

// enable hands down the controllers that are wanted and there, moving this process and its
// children out of the way if it has to.
func (h *here) enable(in *inner, l *Limits) *Error {
	var have, now [256]byte
	there, err := in.dir.file("cgroup.controllers", have[:])
	if err != nil {
		return failed("", "read", in.dir.path+"/cgroup.controllers", err)
	}
	already, err := in.dir.file("cgroup.subtree_control", now[:])
	if err != nil {
		return failed("", "read", in.dir.path+"/cgroup.subtree_control", err)
	}
	missing, some := "", false
	for _, c := range []Controller{Memory, PIDs, CPU} {
		if !l.wanted(c) || !hasWord(there, string(c)) {
			continue
		}
		some = true
		if !hasWord(already, string(c)) {
			missing += " +" + string(c)
		}
	}
	if !some {
		return &Error{Kind: NoController, Path: in.dir.path, Why: "none of the controllers that are needed is given to this cgroup"}
	}
	if missing == "" {
		return nil
	}
	missing = missing[1:]
	err = in.dir.write("cgroup.subtree_control", missing)
	// A child may be born between the look and the move.
	for try := 0; err == unix.EBUSY && try < 5; try++ {
		if e := h.moveAside(in); e != nil {
			return e
		}
		err = in.dir.write("cgroup.subtree_control", missing)
	}
	if err != nil {
		return in.dir.failed("cgroup.subtree_control", err)
	}
	in.enabled = strings.Fields(strings.ReplaceAll(missing, "+", ""))
	return nil
}

// moveAside moves this process and its children to a leaf of their own: a directory of v2
// that hands down controllers has no processes. That others are in it ends the attempt.
func (h *here) moveAside(in *inner) *Error {
	pids, err := in.dir.processes()
	if err != nil {
		return asError("", "read", in.dir.path, err)
	}
	for _, pid := range pids {
		if pid == h.owner.pid {
			continue
		}
		if ppid, _, ok := h.process(pid); !ok || ppid != h.owner.pid {
			return &Error{Kind: Occupied, Op: "write", Path: in.dir.path + "/cgroup.subtree_control", Errno: unix.EBUSY,
				Why: "controllers can't be enabled while processes that are not confine's are in this cgroup, such as " + strconv.Itoa(pid)}
		}
	}
	if in.self == nil {
		if in.self, err = in.dir.make(h.owner.name(rand.Uint32()) + selfSuffix); err != nil {
			return failed("", "mkdirat", in.dir.path, err)
		}
		in.self.markInUse()
	}
	return move(in.self, pids)
}

// move moves processes to a directory. One that has ended needs none.
func move(to *dir, pids []int) *Error {
	for _, pid := range pids {
		if err := to.write("cgroup.procs", strconv.Itoa(pid)); err != nil && err != unix.ESRCH {
			return to.failed("cgroup.procs", err)
		}
	}
	return nil
}

// restore puts back what was changed in the parent, as far as nobody else needs
// it. What has to stay stays: a later run finds it done.
func (in *inner) restore() *Error {
	if len(in.enabled) == 0 && in.self == nil {
		return nil
	}
	if unix.Flock(in.dir.fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil // another run is on
	}
	others, err := in.dir.children()
	if err != nil {
		return asError("", "getdents64", in.dir.path, err)
	}
	if in.self != nil {
		others = slices.DeleteFunc(others, func(name string) bool { return name == in.self.name })
	}
	if len(others) > 0 {
		return nil
	}
	if len(in.enabled) > 0 {
		if err := in.dir.write("cgroup.subtree_control", "-"+strings.Join(in.enabled, " -")); err != nil {
			return in.dir.failed("cgroup.subtree_control", err)
		}
		in.enabled = nil
	}
	return in.goBack()
}

// goBack moves those from the leaf to where they were.
func (in *inner) goBack() *Error {
	if in.self == nil {
		return nil
	}
	defer func() {
		in.self.close()
		in.self = nil
	}()
	pids, err := in.self.processes()
	if err != nil {
		return asError("", "read", in.self.path, err)
	}
	if e := move(in.dir, pids); e != nil {
		return e
	}
	if err := in.self.rmdir(); err != nil {
		return failed("", "rmdir", in.self.path, err)
	}
	return nil
}
