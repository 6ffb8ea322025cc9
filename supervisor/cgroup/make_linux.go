package cgroup

import (
	"cmp"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hierarchy"
	"github.com/confine-run/confine/internal/linux"
)

// Make makes the cgroup of a run, in the first source that gives one. The error is
// an *Error.
//
// Only with an explicit parent, or where nothing else is in the own directory, does it move
// anything: this process and its direct children, see WritableParent.
func Make(o Options) (*Group, error) {
	g, err := thisProcess().make(&o)
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (h *here) make(o *Options) (*Group, *Error) {
	f, err := h.facts(o.Anchor != nil)
	if err != nil {
		return nil, err
	}
	var refused *Error
	for _, s := range sites(f, o.Parent, &o.Limits) {
		g, err := h.makeAt(s, o)
		if err == nil {
			return g, nil
		}
		err.Source = cmp.Or(err.Source, s.source)
		refused = refused.and(err)
	}
	return nil, refused
}

func (h *here) makeAt(s site, o *Options) (*Group, *Error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case s.source == CgroupV1:
		return h.make1(s, o)
	case s.source == WritableParent:
		return h.make2(s, o)
	case s.source != CgroupParent:
		return h.makeScope(s, o)
	}
	v1, err := h.named(s)
	switch {
	case err != nil:
		return nil, err
	case v1:
		return h.make1(s, o)
	}
	return h.make2(s, o)
}

// named says whether the parent that was named is of v1. The other hierarchies then have the own
// directory where they have none of that name.
func (h *here) named(s site) (v1 bool, _ *Error) {
	kind, e := examine(s.v2)
	if e != nil || kind == unix.CGROUP2_SUPER_MAGIC {
		return false, e
	}
	if len(s.v1) == 0 {
		return true, &Error{Kind: NotCgroup, Path: s.v2, Errno: unix.EINVAL, Why: "not in a hierarchy that this process is in"}
	}
	own, e := h.places("self")
	if e != nil {
		return true, e
	}
	for i := range s.v1 {
		if unix.Access(s.v1[i].Path, unix.F_OK) == nil {
			continue
		}
		for _, d := range own {
			if d.Mount == s.v1[i].Mount {
				s.v1[i].Path = d.Path
			}
		}
	}
	return true, nil
}

// make1 makes a child in each hierarchy of v1 that is needed. One that can't be made
// costs what it would hold; there is no group only when nothing is left.
func (h *here) make1(s site, o *Options) (*Group, *Error) {
	g := &Group{source: s.source, version: 1, memory: o.Limits.Memory, name: h.owner.name(rand.Uint32())}
	refused := &Error{Kind: NoController, Why: "no hierarchy with a controller that is needed"}
	useful, rt := false, realtime()
	var judged []string
	for i := range controls1 {
		c := &controls1[i]
		wanted := o.Limits.wanted(c.name)
		if !wanted && (!isLookedAt(c.name) || rt && withCPU(s.v1, c.name)) {
			continue
		}
		d, err := h.child1(g, s.v1, c.name, &judged)
		if err != nil {
			if wanted && refused.Kind == NoController {
				refused = err
			}
			if o.Limits.limited(c.name) {
				g.holds = append(g.holds, hold{c.name, err})
			}
			continue
		}
		useful = useful || wanted
		if wanted || c.name != CPU { // without a rate nothing is throttled
			g.reads(d, c.files)
		}
		if o.Limits.limited(c.name) {
			g.limit(d, c, o.Limits)
		}
	}
	if useful {
		return g, nil
	}
	_ = g.Remove()
	return nil, refused
}

// realtime says that this thread, and so what it starts, comes before ordinary ones. A kernel with
// CONFIG_RT_GROUP_SCHED lets no such process into a new cgroup of the cpu controller.
func realtime() bool {
	a, err := unix.SchedGetAttr(0, 0)
	return err == nil && (a.Policy == unix.SCHED_FIFO || a.Policy == unix.SCHED_RR) && a.Flags&unix.SCHED_FLAG_RESET_ON_FORK == 0
}

// withCPU says whether a controller is in one hierarchy with cpu.
func withCPU(v1 []hierarchy.Dir, c Controller) bool {
	at := hierarchyOf(v1, c)
	return at >= 0 && at == hierarchyOf(v1, CPU)
}

// child1 is the run's directory in the hierarchy of a controller, made if it has none yet. Only the first
// one is marked as in use: whoever is judged there isn't judged again in the others.
func (h *here) child1(g *Group, v1 []hierarchy.Dir, c Controller, judged *[]string) (*dir, *Error) {
	if d := g.in(c); d != nil {
		return d, nil
	}
	at := hierarchyOf(v1, c)
	if at < 0 {
		return nil, &Error{Kind: NoController, Why: "no hierarchy with the controller " + string(c) + " is mounted, or not above this process"}
	}
	parent, err := openDir(v1[at].Path)
	if err != nil {
		return nil, failed("", "open", v1[at].Path, err)
	}
	h.sweep(parent, judged)
	d, err := parent.make(g.name)
	if err != nil {
		parent.close()
		return nil, failed("", "mkdirat", parent.path, err)
	}
	d.controllers = v1[at].Controllers
	if e := d.prepare1(len(g.dirs) == 0); e != nil {
		_ = d.rmdir()
		d.close()
		parent.close()
		return nil, e
	}
	g.dirs = append(g.dirs, d)
	return d, nil
}

func (d *dir) prepare1(first bool) *Error {
	if first {
		d.markInUse()
	}
	if slices.Contains(d.controllers, string(CPUSet)) {
		if e := d.fillCPUSet(); e != nil {
			return e
		}
	}
	// A thread that moves itself alone, as by "tasks", needs no lock that all forks
	// of the host take, and for which an RCU grace period has to be waited for: 0.05
	// ms instead of 10 and more. Before its execve the target has one thread.
	var err error
	if d.procs, err = d.open("tasks", flagsWrite); err != nil {
		return failed("", "open", d.path+"/tasks", err)
	}
	return nil
}

// examine says what kind of cgroup a directory is.
func examine(name string) (kind int64, _ *Error) {
	d, err := openDir(name)
	if err != nil {
		e := failed("", "open", name, err)
		if e.Errno == unix.ENOTDIR {
			e.Kind = NotCgroup
		}
		return 0, e
	}
	defer d.close()
	kind, err = d.kind()
	switch {
	case err != nil:
		return 0, failed("", "fstatfs", name, err)
	case kind != unix.CGROUP2_SUPER_MAGIC && kind != unix.CGROUP_SUPER_MAGIC:
		return 0, &Error{Kind: NotCgroup, Path: name, Errno: unix.EINVAL, Why: "not a directory of a cgroup file system"}
	}
	return kind, nil
}

func (h *here) facts(anchor bool) (*facts, *Error) {
	dirs, err := h.places("self")
	if err != nil {
		return nil, err
	}
	f := &facts{dirs: dirs, root: h.euid == 0, anchor: anchor, delegated: h.delegated}
	_, there := os.Lstat(h.run + "/systemd/system")
	f.systemd = there == nil
	f.controllers = func(dir string) string {
		list, _ := readWhole(dir + "/cgroup.controllers")
		return list
	}
	return f, nil
}

// delegated reads the mark that systemd leaves on what it delegates. Before
// version 251 only root can see it; to others, who the directory belongs to says the same.
func (h *here) delegated(unit string) bool {
	var buf [8]byte
	for _, name := range [...]string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(unit, name, buf[:]); err == nil {
			return strings.TrimSpace(string(buf[:n])) == "1"
		}
	}
	var s unix.Stat_t
	return h.euid != 0 && unix.Stat(unit, &s) == nil && int(s.Uid) == h.euid
}

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
	stat, err := readWhole("/proc/self/stat")
	if err != nil {
		return o
	}
	_, start, ok := startOf(stat)
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
		var err error
		if texts[i], err = readWhole(name); err != nil {
			return nil, failed("", "read", name, err)
		}
	}
	return hierarchy.Dirs(texts[0], texts[1]), nil
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
	return startOf(stat)
}

// Look says what Make would most likely do, and changes nothing: it asks what this process may
// write, and does not ask systemd. Nothing but Make tells for certain.
func Look(parent string) Offer { return thisProcess().look(parent) }

func (h *here) look(parent string) Offer {
	f, err := h.facts(true)
	if err != nil {
		return Offer{Err: err}
	}
	var refused *Error
	for _, s := range sites(f, parent, &Limits{CPUPercent: 100}) {
		offer, err := h.lookAt(f, s)
		if err == nil {
			return offer
		}
		err.Source = cmp.Or(err.Source, s.source)
		refused = refused.and(err)
	}
	return Offer{Err: refused}
}

func (h *here) lookAt(f *facts, s site) (Offer, *Error) {
	o := Offer{Source: s.source, Version: 2, Path: s.v2}
	if s.err != nil {
		return o, s.err
	}
	switch s.source {
	case SystemdUser, SystemdSystem:
		return h.lookScope(f, o)
	case CgroupV1:
		return look1(o, s.v1)
	case CgroupParent:
		v1, err := h.named(s)
		if err != nil {
			return o, err
		}
		if v1 {
			return look1(o, s.v1)
		}
	}
	for _, name := range [...]string{"", "/cgroup.procs", "/cgroup.subtree_control"} {
		if err := linux.MayWrite(s.v2 + name); err != nil {
			return o, failed("", "access", s.v2+name, err)
		}
	}
	o.Controllers = controllersIn(f.controllers(s.v2))
	o.Views = []View{{Path: s.v2, At: viewRoot}}
	return o, nil
}

func look1(o Offer, v1 []hierarchy.Dir) (Offer, *Error) {
	o.Version = 1
	refused := &Error{Kind: NoController, Why: "no hierarchy with a controller that is needed"}
	for i := range controls1 {
		c := controls1[i].name
		at := hierarchyOf(v1, c)
		if at < 0 {
			continue
		}
		if err := linux.MayWrite(v1[at].Path); err != nil {
			if refused.Kind == NoController {
				refused = failed("", "access", v1[at].Path, err)
			}
			continue
		}
		if o.Controllers == nil {
			o.Path = v1[at].Path
		}
		o.Controllers = append(o.Controllers, c)
		if v, ok := view1(v1[at].Path, v1[at].Controllers); ok && !slices.ContainsFunc(o.Views, func(w View) bool { return w.At == v.At }) {
			o.Views = append(o.Views, v)
		}
	}
	if !o.Has(Memory) && !o.Has(PIDs) && !o.Has(CPU) {
		return o, refused
	}
	return o, nil
}

// controllersIn are those of ours in a list of the kernel's.
func controllersIn(list string) (cs []Controller) {
	for _, word := range strings.Fields(list) {
		switch c := Controller(word); c {
		case Memory, PIDs, CPU, IO:
			cs = append(cs, c)
		}
	}
	return cs
}
