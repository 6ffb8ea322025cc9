package cgroup

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"
)

// socket is one that a manager of systemd's can be reached by.
type socket struct {
	address string
	bus     bool // a bus, with the manager behind it
}

// manager is a connection to one.
type manager struct {
	*dbus.Conn
	bus bool
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

// dial connects and says who we are. The deadline holds for whatever is read or written
// by the connection, ever.
func (s socket) dial(uid int, until time.Time) (*manager, error) {
	wire, err := (&net.Dialer{Deadline: until}).Dial("unix", s.address)
	if err != nil {
		return nil, err
	}
	if err := wire.SetDeadline(until); err != nil {
		_ = wire.Close()
		return nil, err
	}
	conn, err := dbus.NewConn(wire)
	if err != nil {
		_ = wire.Close()
		return nil, err
	}
	m := &manager{conn, s.bus}
	if err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(uid))}); err == nil && s.bus {
		err = m.join(until)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return m, nil
}

// join is what a bus needs and a manager itself doesn't: a name, and to be asked for
// the signals.
func (m *manager) join(until time.Time) error {
	if err := m.Hello(); err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	if err := m.AddMatchSignalContext(ctx, dbus.WithMatchInterface(managerInterface), dbus.WithMatchMember("JobRemoved")); err != nil {
		return err
	}
	return m.call(until, "Subscribe")
}

func (m *manager) call(until time.Time, method string, args ...any) error {
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	return m.Object(managerName, managerPath).CallWithContext(ctx, managerInterface+"."+method, 0, args...).Err
}

// jobs are the signals from here on. There is room for those of others that come
// between.
func (m *manager) jobs() <-chan *dbus.Signal {
	signals := make(chan *dbus.Signal, 256)
	m.Signal(signals)
	return signals
}
