package cgroup

import (
	"context"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/godbus/dbus/v5"
)

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
