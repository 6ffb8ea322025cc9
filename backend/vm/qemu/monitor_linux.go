package qemu

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// monitor speaks QMP, as docs/interop/qmp-spec.txt of QEMU has it: a message is a line. A QEMU that says what it may not, or whose CPUs stand
// without having been told to, is at its end.
type monitor struct {
	conn    *net.UnixConn
	answers chan *answer // of one call at a time; closed when there will be none

	mu      sync.Mutex
	waiting bool // somebody does, for an answer
	still   bool // the CPUs are to stand
	fault   error
}

// answer is what QEMU says.
type answer struct {
	QMP    json.RawMessage
	Return json.RawMessage `json:"return"`
	Error  *struct{ Desc string }
	Event  string
}

// maxLine is how long a message is at most.
const maxLine = 64 << 10

// newMonitor begins to listen. broken is called when QEMU is at its end for what it said.
func newMonitor(f *os.File, broken func(error)) (*monitor, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	m := &monitor{conn: c.(*net.UnixConn), answers: make(chan *answer, 1), still: true}
	m.waiting = true // for the greeting
	go func() {
		err := m.listen()
		m.mu.Lock()
		m.fault = err
		m.mu.Unlock()
		close(m.answers)
		broken(err)
	}()
	return m, nil
}

// errQMP is a QEMU that doesn't keep to its protocol.
var errQMP = errors.New("QEMU says what it may not")

func (m *monitor) listen() error {
	from := bufio.NewReaderSize(m.conn, maxLine)
	for {
		line, err := from.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return errQMP
		} else if err != nil {
			return err
		}
		a := &answer{}
		if err := json.Unmarshal(line, a); err != nil {
			return errQMP
		}
		m.mu.Lock()
		waiting, still := m.waiting, m.still
		m.waiting = waiting && a.Event != ""
		m.mu.Unlock()
		switch {
		case a.Event == "STOP" && !still:
			return errors.New("QEMU stopped the CPUs by itself")
		case a.Event != "":
		case !waiting || a.Return == nil && a.Error == nil && a.QMP == nil:
			return errQMP
		default:
			m.answers <- a
		}
	}
}

// hungUp says whether QEMU says no more.
func hungUp(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) }

// prepare hears the greeting, and says what both sides of a migration have to be told.
func (m *monitor) prepare() error {
	if a, err := m.hear(); err != nil || a.QMP == nil {
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

// hear waits for what nobody but one call waits for.
func (m *monitor) hear() (*answer, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case a, ok := <-m.answers:
		if !ok {
			m.mu.Lock()
			defer m.mu.Unlock()
			return nil, m.fault
		}
		return a, nil
	case <-late.C:
		return nil, fmt.Errorf("QEMU didn't answer for %v", patience)
	}
}

// stand has the CPUs stand, and run has them go on. QEMU answers that late, when the CPUs go already; so said is called when it was told to.
func (m *monitor) stand() error {
	m.expect(true)
	return m.call("stop", nil, nil)
}

func (m *monitor) run(said func()) error {
	m.expect(false) // before it: some stop at their first instruction
	const command = "cont"
	if err := m.say(nil, command, nil); err != nil {
		return err
	}
	said()
	return m.heard(command, nil)
}

func (m *monitor) expect(still bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.still = still
}

// call calls a command. Events between are nobody's.
func (m *monitor) call(command string, arguments, result any) error {
	return m.with(nil, command, arguments, result)
}

func (m *monitor) with(f *os.File, command string, arguments, result any) error {
	if err := m.say(f, command, arguments); err != nil {
		return err
	}
	return m.heard(command, result)
}

func (m *monitor) say(f *os.File, command string, arguments any) error {
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
	m.mu.Lock()
	m.waiting = true
	m.mu.Unlock()
	_, _, err = m.conn.WriteMsgUnix(text, rights, nil)
	return err
}

// heard is the answer to what was said.
func (m *monitor) heard(command string, result any) error {
	a, err := m.hear()
	switch {
	case err != nil:
		return fmt.Errorf("QMP %s: %w", command, err)
	case a.Error != nil:
		return fmt.Errorf("QMP %s: %s", command, a.Error.Desc)
	case result != nil:
		return json.Unmarshal(a.Return, result)
	}
	return nil
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
		if err := m.call("query-migrate", nil, &now); hungUp(err) { // it ends when it can't take up a state
			return fmt.Errorf("QEMU ended in the migration: %w", err)
		} else if err != nil {
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
