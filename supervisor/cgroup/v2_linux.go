package cgroup

import (
	"math/rand/v2"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// controls2 are what a directory of v2 may carry.
var controls2 = []control{
	{Memory, func(d *dir, l Limits) hold { return limitMemory(d, l.Memory) }, memoryFiles},
	{PIDs, func(d *dir, l Limits) hold { return limitPIDs(d, l.Tasks) }, pidsFiles},
	{CPU, func(d *dir, l Limits) hold { return limitCPU(d, l.CPUPercent) }, cpuFiles},
	{IO, nil, ioFiles},
}

// make2 makes the run's cgroup in a directory of v2.
func (h *here) make2(source Source, name string, o *Options) (*Group, *Error) {
	parent, err := openDir(name)
	if err != nil {
		return nil, failed(source, "open", name, err)
	}
	in, e := h.enter(parent)
	if e != nil {
		parent.close()
		e.Source = source
		return nil, e
	}
	h.sweep(parent)
	run := h.owner.name(rand.Uint32())
	d, err := parent.make(run)
	if err != nil {
		parent.close()
		return nil, failed(source, "mkdirat", name, err)
	}
	g := &Group{source: source, version: 2, memory: o.Limits.Memory, name: run, dirs: []*dir{d}, parents: []*dir{parent}, undo: in.restore}
	if e = h.reachable(d); e == nil {
		e = h.enable(in, o.wanted())
	}
	if e == nil {
		e = h.fill(g, o)
	}
	if e != nil {
		_ = g.Remove()
		e.Source = source
		return nil, e
	}
	return g, nil
}

// fill sets the limits, and opens what a process joins by.
func (h *here) fill(g *Group, o *Options) (e *Error) {
	d := g.dirs[0]
	var err error
	if d.procs, err = openAt(d.fd, "cgroup.procs", flagsWrite); err != nil {
		return failed("", "open", d.path+"/cgroup.procs", err)
	}
	var buf [256]byte
	have, err := d.file("cgroup.controllers", buf[:])
	if err != nil {
		return failed("", "read", d.path+"/cgroup.controllers", err)
	}
	limited := o.Limits.limited()
	for _, c := range controls2 {
		there := hasWord(have, string(c.name))
		if there || c.name == CPU {
			g.reads(d, c.files)
		}
		if !slices.Contains(limited, c.name) {
			continue
		}
		limit := hold{err: &Error{Source: g.source, Kind: NoController, Path: d.path, Why: "the controller " + string(c.name) + " is not given to this cgroup"}}
		if there {
			limit = c.limit(d, o.Limits)
		}
		g.holds = append(g.holds, namedHold{c.name, limit})
		if c.name == Memory && limit.err == nil {
			g.oom = watchOOM2(d)
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
	at := 0
	for i := 0; ; i++ {
		endA, endB := i == len(a), i == len(b)
		if (endA || a[i] == '/') && (endB || b[i] == '/') {
			at = i
		}
		if endA || endB || a[i] != b[i] {
			return strings.TrimSuffix(a[:at], "/")
		}
	}
}
