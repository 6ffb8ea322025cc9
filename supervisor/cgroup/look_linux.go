package cgroup

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hierarchy"
)

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
