package cgroup

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// systemdPatience bounds everything that systemd is asked for one run.
const systemdPatience = 2 * time.Second

// The scope's directory belongs to us, but holds no processes: a directory of v2 that hands
// down controllers has none.
const (
	initLeaf = "init" // the sandbox's init, which systemd wants there
	runLeaf  = "run"  // the target and its descendants
)

// makeScope has systemd start a scope with the sandbox's init in it, and delegate it.
//
// The scope goes with its last process, whoever is killed: there is nothing to sweep.
func (h *here) makeScope(s site, o *Options) (*Group, *Error) {
	until := time.Now().Add(systemdPatience)
	if e := h.sameSystemd(); e != nil {
		return nil, e
	}
	m, e := h.dial(until)
	if e != nil {
		return nil, e
	}
	defer m.close()
	anchor := o.Anchor()
	if anchor <= 0 {
		return nil, &Error{Kind: NoSystemd, Why: "a scope can't be made without a process"}
	}
	unit := "confine-" + strconv.Itoa(h.owner.pid) + "-" + strconv.FormatUint(uint64(rand.Uint32()), 16) + ".scope"
	if e := m.start(unit, anchor); e != nil {
		return nil, e
	}
	scope, e := h.scopeOf(anchor, unit)
	if e != nil {
		return nil, e
	}
	return h.makeInScope(s.source, scope, anchor, o)
}

// sameSystemd: pids mean the same to systemd as here. A bus that was passed into a
// container would have it move whoever has that number outside.
func (h *here) sameSystemd() *Error {
	if h.owner.spaces>>32 == initialPIDNamespace {
		return nil
	}
	if comm, err := os.ReadFile(h.proc + "/1/comm"); err == nil && string(comm) == "systemd\n" {
		return nil
	}
	return &Error{Kind: NoSystemd, Why: "systemd is not the init of this pid namespace"}
}

// initialPIDNamespace is PROC_PID_INIT_INO.
const initialPIDNamespace = 0xeffffffc

// scopeOf opens the directory that the anchor is in, which has to be that of the unit.
func (h *here) scopeOf(anchor int, unit string) (*dir, *Error) {
	places, e := h.places(strconv.Itoa(anchor))
	if e != nil {
		return nil, e
	}
	for _, p := range places {
		if !p.V2 {
			continue
		}
		if path.Base(p.Path) != unit {
			return nil, &Error{Kind: NoSystemd, Path: p.Path, Why: "the sandbox's init is here and not in " + unit}
		}
		d, err := openDir(p.Path)
		if err != nil {
			return nil, failed("", "open", p.Path, err)
		}
		return d, nil
	}
	return nil, &Error{Kind: Absent, Path: unit, Why: "the scope is in no hierarchy that is mounted here"}
}

// makeInScope makes the leaves and moves the anchor to its own. It takes the scope over.
func (h *here) makeInScope(source Source, scope *dir, anchor int, o *Options) (*Group, *Error) {
	first, err := scope.make(initLeaf)
	if err != nil {
		scope.close()
		return nil, failed("", "mkdirat", scope.path, err)
	}
	e := move(first, []int{anchor})
	if e == nil {
		e = h.enable(&inner{dir: scope}, &o.Limits)
	}
	if e != nil {
		scope.close()
		return nil, e
	}
	d, err := scope.make(runLeaf)
	if err != nil {
		scope.close()
		return nil, failed("", "mkdirat", scope.path, err)
	}
	g := &Group{source: source, version: 2, memory: o.Limits.Memory, dirs: []*dir{d}}
	name := scope.path
	g.undo = func() *Error {
		// Only when the init is gone; and else, systemd does it then.
		if unix.Rmdir(name+"/"+initLeaf) == nil {
			_ = unix.Rmdir(name)
		}
		return nil
	}
	if e := g.fill(o.Limits); e != nil {
		_ = g.Remove()
		return nil, e
	}
	return g, nil
}

// sockets are where the manager listens: itself first, which is quicker than by way
// of the bus, and is not there for users who are not allowed to.
func (h *here) sockets() (all []socket) {
	if h.euid == 0 {
		return []socket{
			{address: h.run + "/systemd/private"},
			{address: h.run + "/dbus/system_bus_socket", bus: true},
		}
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" { // as after su(1)
		dir = h.run + "/user/" + strconv.Itoa(h.euid)
	}
	all = append(all, socket{address: dir + "/systemd/private"}, socket{address: dir + "/bus", bus: true})
	// Of the addresses that D-Bus knows, those that start no program.
	for one := range strings.SplitSeq(os.Getenv("DBUS_SESSION_BUS_ADDRESS"), ";") {
		one, _, _ = strings.Cut(one, ",")
		s := socket{bus: true}
		if name, ok := strings.CutPrefix(one, "unix:path="); ok {
			s.address = name
		} else if name, ok := strings.CutPrefix(one, "unix:abstract="); ok {
			s.address = "@" + name
		}
		if s.address != "" && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

func (h *here) dial(until time.Time) (*manager, *Error) {
	var e *Error
	for _, s := range h.sockets() {
		m, err := s.dial(h.euid, until)
		if err == nil {
			return m, nil
		}
		e = failed("", "connect", s.address, err)
		if e.Kind != Denied {
			e.Kind = NoSystemd
		}
	}
	return nil, e
}

// start starts the scope, and waits until the job is done.
func (m *manager) start(unit string, anchor int) *Error {
	const call = "StartTransientUnit"
	jobs := m.jobs()
	properties := []property{
		{"Description", dbus.MakeVariant("a run of confine")},
		{"Delegate", dbus.MakeVariant(true)},
		{"PIDs", dbus.MakeVariant([]uint32{uint32(anchor)})},
		{"CollectMode", dbus.MakeVariant("inactive-or-failed")},
	}
	if err := m.call(call, unit, "fail", properties, []auxiliary{}); err != nil {
		return refusal(call, unit, err)
	}
	for s := range jobs { // until it is closed, at the deadline or by systemd
		// JobRemoved(id, job, unit, result)
		if s.Name != managerInterface+".JobRemoved" || len(s.Body) != 4 || s.Body[2] != unit {
			continue
		}
		if result, _ := s.Body[3].(string); result != "done" {
			return &Error{Kind: NoSystemd, Op: call, Path: unit, Why: "the job ended as " + strconv.Quote(result)}
		}
		return nil
	}
	return refusal(call, unit, m.late(unix.ECONNRESET))
}

func refusal(call, unit string, err error) *Error {
	e := failed("", call, unit, err)
	var refused dbus.Error
	switch {
	case errors.As(err, &refused):
		e.Kind, e.Why = NoSystemd, refused.Name+": "+refused.Error()
		if strings.HasSuffix(refused.Name, ".AccessDenied") || strings.HasSuffix(refused.Name, ".InteractiveAuthorizationRequired") {
			e.Kind = Denied
		}
	case e.Kind == TimedOut:
	default:
		e.Kind = NoSystemd
	}
	return e
}

// lookScope asks nothing: there is a socket, and what the manager could hand down.
func (h *here) lookScope(f *facts, o Offer) (Offer, *Error) {
	if e := h.sameSystemd(); e != nil {
		return o, e
	}
	var e *Error
	for _, s := range h.sockets() {
		if err := linux.MayWrite(s.address); err != nil && s.address[0] != '@' {
			e = failed("", "access", s.address, err)
			e.Kind = NoSystemd
			continue
		}
		for _, d := range f.dirs {
			if !d.V2 {
				continue
			}
			o.Path = d.Mount
			if o.Source == SystemdUser {
				id := strconv.Itoa(h.euid)
				o.Path = d.Mount + "/user.slice/user-" + id + ".slice/user@" + id + ".service"
			}
		}
		o.Controllers = controllersIn(f.controllers(o.Path))
		o.Views = []View{{Path: o.Path, At: viewRoot}}
		return o, nil
	}
	return o, e
}

// socket is one that a manager of systemd's can be reached by.
type socket struct {
	address string
	bus     bool // a bus, with the manager behind it
}

// manager is a connection to one. It is closed by itself at the deadline, and
// whatever waits for something then ends.
type manager struct {
	*dbus.Conn
	ctx    context.Context
	cancel context.CancelFunc
}

const (
	managerName      = "org.freedesktop.systemd1"
	managerPath      = "/org/freedesktop/systemd1"
	managerInterface = managerName + ".Manager"
)

// The types of StartTransientUnit: a(sv) and a(sa(sv)).
type property struct {
	Name  string
	Value dbus.Variant
}

type auxiliary struct {
	Name       string
	Properties []property
}

// dial connects and says who we are. The library does it itself: over a connection that it is
// given, it panics when that is closed in the middle of a message (v5.2.2).
func (s socket) dial(uid int, until time.Time) (*manager, error) {
	key, name := "unix:path=", s.address
	if abstract, ok := strings.CutPrefix(s.address, "@"); ok {
		key, name = "unix:abstract=", abstract
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	conn, err := dbus.Dial(key+dbus.EscapeBusAddressValue(name), dbus.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	m := &manager{conn, ctx, cancel}
	if err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(uid))}); err == nil && s.bus {
		err = m.join()
	}
	if err != nil {
		err = m.late(err)
		m.close()
		return nil, err
	}
	return m, nil
}

func (m *manager) close() {
	_ = m.Conn.Close()
	m.cancel()
}

// late is err, or that it came of the deadline.
func (m *manager) late(err error) error {
	if m.ctx.Err() == context.DeadlineExceeded {
		return unix.ETIMEDOUT
	}
	return err
}

// join is what a bus needs and a manager itself doesn't: a name, and to be asked for
// the signals.
func (m *manager) join() error {
	if err := m.Hello(); err != nil {
		return err
	}
	if err := m.AddMatchSignalContext(m.ctx, dbus.WithMatchInterface(managerInterface), dbus.WithMatchMember("JobRemoved")); err != nil {
		return err
	}
	return m.call("Subscribe")
}

func (m *manager) call(method string, args ...any) error {
	err := m.Object(managerName, managerPath).CallWithContext(m.ctx, managerInterface+"."+method, 0, args...).Err
	if err != nil {
		return m.late(err)
	}
	return nil
}

// jobs are the signals from here on. There is room for those of others that come
// between.
func (m *manager) jobs() <-chan *dbus.Signal {
	signals := make(chan *dbus.Signal, 256)
	m.Signal(signals)
	return signals
}
