package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/vm/internal/wire"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// hostile is a guest that says what a test likes.
type hostile struct {
	conn  *conn
	box   *sandbox
	says  *wire.Writer
	raw   io.Writer
	hears io.Reader
	ended chan struct{} // closed when the machine is to be ended
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	fromGuest, toHost := io.Pipe()
	fromHost, toGuest := io.Pipe()
	h := &hostile{says: wire.NewWriter(toHost), raw: toHost, hears: fromHost, ended: make(chan struct{})}
	t.Cleanup(func() { toHost.Close(); fromHost.Close() })
	h.conn = newConn(fromGuest, toGuest, func() { close(h.ended) })
	p := config.Default()
	p.OutputLimit = 1000
	h.box = &sandbox{machine: &machine{conn: h.conn, console: &tail{}}, spec: &backend.Spec{Policy: &p}, closed: make(chan struct{}), ledger: status.Ledger{}}
	return h
}

// next is the next thing that the host says.
func (h *hostile) next(t *testing.T) (wire.Frame, wire.Request) {
	t.Helper()
	f, err := wire.Read(h.hears)
	must.Do(t, err)
	var r wire.Request
	if f.Kind == wire.Call {
		must.Do(t, json.Unmarshal(f.Data, &r))
	}
	return f, r
}

// started is a process that the guest says to have started.
func (h *hostile) started(t *testing.T, e *backend.Exec) (backend.Process, uint32) {
	t.Helper()
	number := make(chan uint32, 1)
	go func() {
		f, r := h.next(t)
		_ = h.says.SendMessage(wire.Reply, f.ID, &wire.Answer{})
		number <- r.To
		_, _ = io.Copy(io.Discard, h.hears)
	}()
	e.Argv = []string{"x"}
	p, err := h.box.Start(t.Context(), e)
	must.Do(t, err)
	return p, <-number
}

func TestAGuestThatBreaksTheProtocolIsEnded(t *testing.T) {
	ok := &wire.Ended{Report: &status.Report{Status: status.OK}}
	for name, lie := range map[string]func(h *hostile, id uint32){
		"an answer that nobody asked for": func(h *hostile, id uint32) { _ = h.says.SendMessage(wire.Reply, 9999, &wire.Answer{}) },
		"that it goes on":                 func(h *hostile, id uint32) { _ = h.says.Send(wire.Resumed, 9999, nil) },
		"the same answer twice":           func(h *hostile, id uint32) { _ = h.says.SendMessage(wire.Reply, 1, &wire.Answer{}) },
		"an answer that is none":          func(h *hostile, id uint32) { _ = h.says.Send(wire.Reply, 1, []byte("[")) },
		"output of nobody":                func(h *hostile, id uint32) { _ = h.says.Send(wire.Stdout, 9999, []byte("x")) },
		"output that nobody reads":        func(h *hostile, id uint32) { _ = h.says.Send(wire.Stderr, id, []byte("x")) },
		"more output than the limit":      func(h *hostile, id uint32) { _ = h.says.Send(wire.Stdout, id, make([]byte, 1000+marker+1)) },
		"standard input":                  func(h *hostile, id uint32) { _ = h.says.Send(wire.Stdin, id, []byte("x")) },
		"a call":                          func(h *hostile, id uint32) { _ = h.says.SendMessage(wire.Call, 1, &wire.Request{}) },
		"it took what nobody sent": func(h *hostile, id uint32) {
			_ = h.says.SendMessage(wire.Taken, id, wire.Credit{Stream: wire.Stdin, N: 1})
		},
		"it took less than nothing": func(h *hostile, id uint32) {
			_ = h.says.SendMessage(wire.Taken, id, wire.Credit{Stream: wire.Stdin, N: -1})
		},
		"it took of another stream": func(h *hostile, id uint32) { _ = h.says.SendMessage(wire.Taken, id, wire.Credit{Stream: wire.Stdout}) },
		"no report":                 func(h *hostile, id uint32) { _ = h.says.SendMessage(wire.End, id, &wire.Ended{}) },
		"a report with a status of its own": func(h *hostile, id uint32) {
			_ = h.says.SendMessage(wire.End, id, &wire.Ended{Report: &status.Report{Status: "FINE"}})
		},
		"a report with an impossible code": func(h *hostile, id uint32) {
			_ = h.says.SendMessage(wire.End, id, &wire.Ended{Report: &status.Report{Status: status.OK, RC: 256}})
		},
		"an end of nobody": func(h *hostile, id uint32) { _ = h.says.SendMessage(wire.End, 9999, ok) },
		"an end twice": func(h *hostile, id uint32) {
			_ = h.says.SendMessage(wire.End, id, ok)
			_ = h.says.SendMessage(wire.End, id, ok)
		},
		"two greetings":                 func(h *hostile, id uint32) { hello(h); hello(h) },
		"a greeting of another version": func(h *hostile, id uint32) { _ = h.says.SendMessage(wire.Hello, 0, wire.Greeting{Version: 99}) },
		"a frame of 4 GiB": func(h *hostile, id uint32) {
			_, _ = h.raw.Write([]byte{byte(wire.End), 0, 0, 0, 1, 255, 255, 255, 255})
		},
		"a frame of a kind that there isn't": func(h *hostile, id uint32) { _, _ = h.raw.Write(bytes.Repeat([]byte{0xff}, 9)) },
		"events without end": func(h *hostile, id uint32) {
			for h.says.SendMessage(wire.Event, id, &backend.Event{}) == nil {
				select {
				case <-h.ended:
					return
				default:
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t)
			p, id := h.started(t, &backend.Exec{Stdout: io.Discard, Stdin: strings.NewReader("")})
			go lie(h, id)
			select {
			case <-h.ended:
			case <-time.After(20 * time.Second):
				t.Fatal("the machine goes on")
			}
			if err := h.conn.why(); !errors.Is(err, wire.ErrProtocol) {
				t.Errorf("it was ended by %v", err)
			}
			<-p.(*task).ended
			if _, err := h.conn.call(t.Context(), &wire.Request{Method: wire.Usage}); !errors.Is(err, backend.ErrClosed) {
				t.Errorf("afterwards it is asked: %v", err)
			}
		})
	}
}

func hello(h *hostile) { _ = h.says.SendMessage(wire.Hello, 0, wire.Greeting{Version: wire.Version}) }

// What a guest may say ends nothing: else the test above would pass with a host that ends every machine.
func TestAGuestThatKeepsToTheProtocolGoesOn(t *testing.T) {
	h := newHostile(t)
	var out bytes.Buffer
	told := 0
	p, id := h.started(t, &backend.Exec{Stdout: &out, Tell: func(backend.Event) { told++ }})
	hello(h)
	_ = h.says.SendMessage(wire.Event, id, &backend.Event{Limit: status.Memory})
	_ = h.says.Send(wire.Stdout, id, make([]byte, 1000))
	_ = h.says.SendMessage(wire.End, id, &wire.Ended{Report: &status.Report{Status: status.OK}})
	<-p.(*task).ended
	p.(*task).delivering.Wait()
	if err := h.conn.why(); err != nil || out.Len() != 1000 || told != 1 {
		t.Errorf("%v; %d bytes, %d events", err, out.Len(), told)
	}
}

func TestAGuestThatDoesNotAnswerIsEnded(t *testing.T) {
	h := newHostile(t)
	go func() { _, _ = io.Copy(io.Discard, h.hears) }()
	if _, err := h.conn.ask(context.Background(), &wire.Request{Method: wire.Usage}, 20*time.Millisecond); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("%v", err)
	}
	<-h.ended
	// Nor is one waited for that reads nothing.
	h = newHostile(t)
	if _, err := h.conn.ask(context.Background(), &wire.Request{Method: wire.Usage}, 20*time.Millisecond); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("%v", err)
	}
	<-h.ended
}

// A machine that is being written down isn't late: its clock stands.
func TestAMachineThatIsWrittenDownIsNotLate(t *testing.T) {
	h := newHostile(t)
	go func() { _, _ = io.Copy(io.Discard, h.hears) }()
	h.conn.held.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := h.conn.ask(ctx, &wire.Request{Method: wire.Usage}, 20*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) || h.conn.why() != nil {
		t.Errorf("%v, and the machine: %v", err, h.conn.why())
	}
	h.conn.still.Store(true)
	if _, err := h.conn.call(t.Context(), &wire.Request{Method: wire.Usage}); !errors.Is(err, errStill) {
		t.Errorf("one that stands still is asked: %v", err)
	}
}

func FuzzConn(f *testing.F) {
	frame := func(k wire.Kind, id uint32, message string) []byte {
		var b bytes.Buffer
		_ = wire.NewWriter(&b).Send(k, id, []byte(message))
		return b.Bytes()
	}
	f.Add(frame(wire.Hello, 0, `{"Version":1}`))
	f.Add(frame(wire.Reply, 1, `{"Err":{"Text":"x"}}`))
	f.Add(append(frame(wire.Stdout, 1, "x"), frame(wire.End, 1, `{"Report":{"status":"OK"}}`)...))
	f.Add(frame(wire.Event, 1, `{"Denied":{"kind":"x"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		ended := make(chan struct{})
		c := &conn{to: wire.NewWriter(io.Discard), hello: make(chan wire.Greeting, 1), dead: make(chan struct{}), fault: func() { close(ended) },
			pending: map[uint32]chan *wire.Answer{1: make(chan *wire.Answer, 1)}, processes: map[uint32]*task{}}
		p := &task{id: 1, exec: &backend.Exec{}, in: map[wire.Kind]*wire.Inflow{wire.Stdout: wire.NewInflow(func(int) {})}, got: map[wire.Kind]int64{},
			limit: 100, ended: make(chan struct{}), out: wire.NewOutflow(func([]byte) error { return nil })}
		c.processes[1] = p
		c.listen(bytes.NewReader(text))
		<-ended
		<-p.ended
	})
}
