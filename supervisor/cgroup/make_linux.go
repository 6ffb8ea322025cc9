package cgroup

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hierarchy"
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
	for _, s := range sites(f, o.Parent, o.wanted()) {
		g, err := h.makeAt(s, o)
		if err == nil {
			return g, nil
		}
		refused = refused.and(err)
	}
	return nil, refused
}

func (h *here) makeAt(s site, o *Options) (*Group, *Error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case s.source == CgroupV1:
		return h.make1(o, s.v1)
	case s.source == CgroupParent:
		return h.makeBelow(s, o)
	case s.source == WritableParent:
		return h.make2(s.source, s.v2, o)
	}
	return h.makeScope(s, o)
}

// makeBelow makes it in the parent that was named, of whichever version that is.
func (h *here) makeBelow(s site, o *Options) (*Group, *Error) {
	kind, err := examine(s.source, s.v2)
	if err != nil {
		return nil, err
	}
	if kind == unix.CGROUP2_SUPER_MAGIC {
		return h.make2(s.source, s.v2, o)
	}
	if len(s.v1) == 0 {
		return nil, &Error{Source: s.source, Kind: NotCgroup, Path: s.v2, Errno: unix.EINVAL, Why: "not in a hierarchy that this process is in"}
	}
	return h.make1(o, existing(s.v1, h))
}

// existing puts the own directory where the named place isn't in a hierarchy.
func existing(named []hierarchy.Dir, h *here) []hierarchy.Dir {
	own, err := h.places("self")
	if err != nil {
		return named
	}
	for i := range named {
		if unix.Access(named[i].Path, unix.F_OK) == nil {
			continue
		}
		for _, d := range own {
			if d.Mount == named[i].Mount {
				named[i].Path = d.Path
			}
		}
	}
	return named
}

// examine says what kind of cgroup a directory is.
func examine(source Source, name string) (kind int64, _ *Error) {
	d, err := openDir(name)
	if err != nil {
		e := failed(source, "open", name, err)
		if e.Errno == unix.ENOTDIR {
			e.Kind = NotCgroup
		}
		return 0, e
	}
	defer d.close()
	kind, readOnly, err := statfs(d.fd)
	switch {
	case err != nil:
		return 0, failed(source, "fstatfs", name, err)
	case kind != unix.CGROUP2_SUPER_MAGIC && kind != unix.CGROUP_SUPER_MAGIC:
		return 0, &Error{Source: source, Kind: NotCgroup, Path: name, Errno: unix.EINVAL, Why: "not a directory of a cgroup file system"}
	case readOnly:
		return 0, &Error{Source: source, Kind: ReadOnly, Op: "mkdirat", Path: name, Errno: unix.EROFS}
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
		var buf [256]byte
		b, _ := readFile(unix.AT_FDCWD, dir+"/cgroup.controllers", buf[:])
		return string(b)
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
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, failed("", "read", name, err)
		}
		texts[i] = string(b)
	}
	return hierarchy.Dirs(texts[0], texts[1]), nil
}

// process reads of another process who its parent is and when it started. Not ok: it
// is not to be seen, or proc is not that of the own pid namespace.
func (h *here) process(pid int) (ppid int, start int64, ok bool) {
	if self, err := os.Readlink(h.proc + "/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return 0, 0, false
	}
	stat, err := os.ReadFile(h.proc + "/" + strconv.Itoa(pid) + "/stat")
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

// Look says what Make would most likely do, and changes nothing: it asks what this process may
// write, and does not ask systemd. Nothing but Make tells for certain.
func Look(parent string) Offer { return thisProcess().look(parent) }

func (h *here) look(parent string) Offer {
	f, err := h.facts(true)
	if err != nil {
		return Offer{Err: err}
	}
	var refused *Error
	for _, s := range sites(f, parent, []Controller{Memory, PIDs, CPU}) {
		offer, err := h.lookAt(f, s)
		if err == nil {
			return offer
		}
		if err.Source == "" {
			err.Source = s.source
		}
		refused = refused.and(err)
	}
	return Offer{Err: refused}
}

func (h *here) lookAt(f *facts, s site) (Offer, *Error) {
	o := Offer{Source: s.source, Version: 2, Path: s.v2}
	switch {
	case s.err != nil:
		return o, s.err
	case s.source == CgroupV1:
		return look1(o, s.v1)
	case s.source == SystemdUser || s.source == SystemdSystem:
		return h.lookScope(f, o)
	case s.source == CgroupParent:
		kind, err := examine(s.source, s.v2)
		if err != nil {
			return o, err
		}
		if kind == unix.CGROUP_SUPER_MAGIC {
			return look1(o, existing(s.v1, h))
		}
	}
	for _, name := range [...]string{"", "/cgroup.procs", "/cgroup.subtree_control"} {
		if err := mayWrite(s.v2 + name); err != nil {
			return o, failed(s.source, "access", s.v2+name, err)
		}
	}
	o.Controllers = controllersIn(f.controllers(s.v2))
	o.Views = []View{{Path: s.v2, At: viewRoot}}
	return o, nil
}

func look1(o Offer, places []hierarchy.Dir) (Offer, *Error) {
	o.Version = 1
	var refused *Error
	for _, c := range controls1 {
		at := slices.IndexFunc(places, func(p hierarchy.Dir) bool { return slices.Contains(p.Controllers, string(c.name)) })
		if at < 0 {
			continue
		}
		if err := mayWrite(places[at].Path); err != nil {
			if refused == nil {
				refused = failed(o.Source, "access", places[at].Path, err)
			}
			continue
		}
		if o.Controllers == nil {
			o.Path = places[at].Path
		}
		o.Controllers = append(o.Controllers, c.name)
		if v := view1(places[at].Path, places[at].Controllers); isLookedAt(places[at].Controllers) && !slices.ContainsFunc(o.Views, func(w View) bool { return w.At == v.At }) {
			o.Views = append(o.Views, v)
		}
	}
	if !o.Has(Memory) && !o.Has(PIDs) && !o.Has(CPU) {
		if refused == nil {
			refused = &Error{Source: o.Source, Kind: NoController, Why: "no hierarchy with a controller that is needed"}
		}
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

// mayWrite asks with the effective ids.
func mayWrite(name string) error {
	err := unix.Faccessat2(unix.AT_FDCWD, name, unix.W_OK, unix.AT_EACCESS)
	if err == unix.ENOSYS || err == unix.EPERM { // before Linux 5.8, or filtered
		err = unix.Faccessat(unix.AT_FDCWD, name, unix.W_OK, 0)
	}
	return err
}
