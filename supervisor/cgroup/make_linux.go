package cgroup

import (
	"os"
	"strings"

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
