package cgroup

import (
	"math/rand/v2"
	"slices"

	"github.com/confine-run/confine/internal/hierarchy"
)

// make1 makes a child in each hierarchy that is needed. One that can't be made
// costs what it would hold; there is no group only when nothing is left.
func (h *here) make1(o *Options, places []hierarchy.Dir) (*Group, *Error) {
	g := &Group{source: CgroupV1, version: 1, memory: o.Limits.Memory, name: h.owner.name(rand.Uint32())}
	if o.Parent != "" {
		g.source = CgroupParent
	}
	wanted := o.wanted()
	limited := o.Limits.limited()
	var refused *Error
	useful := false
	made := map[string]*dir{}
	for _, c := range controls1 {
		needed := slices.Contains(wanted, c.name)
		if !needed && !(o.Account && isLookedAt([]string{string(c.name)})) {
			continue
		}
		d, err := h.child1(g, made, places, c.name)
		if err != nil {
			if refused == nil {
				refused = err
			}
			if slices.Contains(limited, c.name) {
				g.holds = append(g.holds, hold{c.name, c.file, err})
			}
			continue
		}
		if c.name == PIDs {
			g.pids = d
		}
		useful = useful || needed
		if needed || c.name != CPU { // without a rate nothing is throttled
			g.reads(d, c.files)
		}
		if !slices.Contains(limited, c.name) {
			continue
		}
		limit := c.limit(d, o.Limits)
		g.holds = append(g.holds, hold{c.name, c.file, limit})
		if limit == nil && c.name == Memory {
			g.oom = watchOOM1(d)
		}
	}
	if useful {
		return g, nil
	}
	_ = g.Remove()
	if refused == nil {
		refused = &Error{Kind: NoController, Why: "no hierarchy with a controller that is needed"}
	}
	refused.Source = g.source
	return nil, refused
}

// child1 is the run's directory in the hierarchy of a controller, made if it has
// none yet.
func (h *here) child1(g *Group, made map[string]*dir, places []hierarchy.Dir, c Controller) (*dir, *Error) {
	at := slices.IndexFunc(places, func(p hierarchy.Dir) bool { return slices.Contains(p.Controllers, string(c)) })
	if at < 0 {
		return nil, &Error{Source: g.source, Kind: NoController, Why: "no hierarchy with the controller " + string(c) + " is mounted, or not above this process"}
	}
	where := places[at].Path
	if d := made[where]; d != nil {
		return d, nil
	}
	parent, err := openDir(where)
	if err != nil {
		return nil, failed(g.source, "open", where, err)
	}
	h.sweep(parent)
	d, err := parent.make(g.name)
	if err != nil {
		parent.close()
		return nil, failed(g.source, "mkdirat", where, err)
	}
	d.controllers = places[at].Controllers
	if slices.Contains(d.controllers, string(CPUSet)) {
		if e := d.fillCPUSet(parent); e != nil {
			_ = d.rmdir()
			d.close()
			parent.close()
			e.Source = g.source
			return nil, e
		}
	}
	// A thread that moves itself alone, as by "tasks", needs no lock that all forks
	// of the host take, and for which an RCU grace period has to be waited for: 0.05
	// ms instead of 10 and more. Before its execve the target has one thread.
	if d.procs, err = openAt(d.fd, "tasks", flagsWrite); err != nil {
		_ = d.rmdir()
		d.close()
		parent.close()
		return nil, failed(g.source, "open", d.path+"/tasks", err)
	}
	g.parents = append(g.parents, parent)
	g.dirs = append(g.dirs, d)
	made[where] = d
	return d, nil
}
