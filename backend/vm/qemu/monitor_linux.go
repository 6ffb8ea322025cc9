package qemu

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// monitor speaks QMP, as docs/interop/qmp-spec.txt of QEMU has it.
type monitor struct {
	conn *net.UnixConn
	from *json.Decoder
}

func newMonitor(f *os.File) (*monitor, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return &monitor{c.(*net.UnixConn), json.NewDecoder(c)}, nil
}

// prepare hears the greeting, and says what both sides of a migration have to be told.
func (m *monitor) prepare() error {
	var greeting struct{ QMP json.RawMessage }
	if err := m.from.Decode(&greeting); err != nil || greeting.QMP == nil {
		return errors.Join(errors.New("QEMU doesn't greet"), err)
	}
	type capability struct {
		Capability string `json:"capability"`
		State      bool   `json:"state"`
	}
	return errors.Join(m.call("qmp_capabilities", nil, nil),
		m.call("migrate-set-capabilities", map[string]any{"capabilities": []capability{{"x-ignore-shared", true}}}, nil),
		m.call("migrate-set-parameters", map[string]any{"max-bandwidth": int64(4) << 30}, nil))
}

// call calls a command. Events between are nobody's.
func (m *monitor) call(command string, arguments, result any) error {
	return m.with(nil, command, arguments, result)
}

func (m *monitor) with(f *os.File, command string, arguments, result any) error {
	text, err := json.Marshal(map[string]any{"execute": command, "arguments": arguments})
	if arguments == nil {
		text, err = json.Marshal(map[string]any{"execute": command})
	}
	if err != nil {
		return err
	}
	var rights []byte
	if f != nil {
		rights = unix.UnixRights(int(f.Fd()))
	}
	if _, _, err := m.conn.WriteMsgUnix(text, rights, nil); err != nil {
		return err
	}
	if err := m.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	for {
		var a struct {
			Return json.RawMessage `json:"return"`
			Error  *struct{ Desc string }
			Event  string
		}
		if err := m.from.Decode(&a); err != nil {
			return fmt.Errorf("QMP %s: %w", command, err)
		}
		switch {
		case a.Error != nil:
			return fmt.Errorf("QMP %s: %s", command, a.Error.Desc)
		case a.Event != "":
		case result != nil:
			return json.Unmarshal(a.Return, result)
		default:
			return nil
		}
	}
}

// move has a migration to or from a file come to its end.
func (m *monitor) move(command string, f *os.File) error {
	const name = "state"
	if err := m.with(f, "getfd", map[string]string{"fdname": name}, nil); err != nil {
		return err
	}
	if err := m.call(command, map[string]string{"uri": "fd:" + name}, nil); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
		var now struct {
			Status string
			Error  string `json:"error-desc"`
		}
		if err := m.call("query-migrate", nil, &now); err != nil {
			return err
		}
		switch now.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("QEMU: the migration has %s %s", now.Status, now.Error)
		}
	}
	return fmt.Errorf("QEMU doesn't end %s within %v", command, patience)
}
