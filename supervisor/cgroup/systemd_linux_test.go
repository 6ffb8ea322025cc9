package cgroup

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/host"
)

// fakeSystemd is a peer that speaks enough of D-Bus to be asked for a scope.
type fakeSystemd struct {
	testing.TB
	address string
	asked   []string // the methods, in order
	// scope makes the scope, as systemd would.
	scope  func(unit string, pid int) error
	result string // of the job
	refuse string // name of the error that StartTransientUnit gives
	half   bool   // StartTransientUnit is answered by a part of a message
	silent bool   // and no answer ever
	mute   string // the method that is not answered
	mu     sync.Mutex
}

func newFake(t *testing.T, change func(*fakeSystemd)) *fakeSystemd {
	f := &fakeSystemd{TB: t, address: path.Join(t.TempDir(), "private"), result: "done"}
	change(f)
	l, err := net.Listen("unix", f.address)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
	return f
}

func (f *fakeSystemd) serve(c net.Conn) {
	defer c.Close()
	if f.silent {
		time.Sleep(time.Minute)
	}
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		switch line = strings.Trim(line, "\x00\r\n"); {
		case line == "AUTH": // which methods?
			_, _ = c.Write([]byte("REJECTED EXTERNAL\r\n"))
		case strings.HasPrefix(line, "AUTH EXTERNAL"):
			_, _ = c.Write([]byte("OK 0123456789abcdef0123456789abcdef\r\n"))
		case line == "BEGIN":
			f.messages(c, r)
			return
		default:
			_, _ = c.Write([]byte("ERROR\r\n"))
		}
	}
}

func (f *fakeSystemd) messages(c net.Conn, r *bufio.Reader) {
	serial := uint32(0)
	send := func(kind dbus.Type, headers map[dbus.HeaderField]dbus.Variant, body ...any) {
		serial++
		m := &dbus.Message{Type: kind, Headers: headers, Body: body}
		if len(body) > 0 {
			headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
		}
		_ = m.EncodeTo(c, binary.LittleEndian)
	}
	for {
		m, err := dbus.DecodeMessage(r)
		if err != nil {
			return
		}
		method, _ := m.Headers[dbus.FieldMember].Value().(string)
		f.mu.Lock()
		f.asked = append(f.asked, method)
		f.mu.Unlock()
		if method == f.mute {
			continue
		}
		reply := map[dbus.HeaderField]dbus.Variant{dbus.FieldReplySerial: dbus.MakeVariant(m.Serial())}
		switch method {
		case "Hello":
			send(dbus.TypeMethodReply, reply, ":1.7")
		case "StartTransientUnit":
			if f.refuse != "" {
				reply[dbus.FieldErrorName] = dbus.MakeVariant(f.refuse)
				send(dbus.TypeError, reply, "not for you")
				continue
			}
			unit := m.Body[0].(string)
			if f.scope != nil {
				if err := f.scope(unit, f.pid(m)); err != nil {
					f.Error(err)
				}
			}
			job := dbus.ObjectPath("/org/freedesktop/systemd1/job/1")
			signal := func(unit, result string) {
				send(dbus.TypeSignal, map[dbus.HeaderField]dbus.Variant{
					dbus.FieldPath: dbus.MakeVariant(dbus.ObjectPath(managerPath)), dbus.FieldInterface: dbus.MakeVariant(managerInterface),
					dbus.FieldMember: dbus.MakeVariant("JobRemoved"), dbus.FieldSender: dbus.MakeVariant(managerName),
				}, uint32(1), job, unit, result)
			}
			signal("other.service", "failed")
			if f.half { // a message that breaks off
				_, _ = c.Write([]byte("l\x02\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00\x20\x00\x00\x00\x05\x01u"))
				return
			}
			if f.result == "" {
				send(dbus.TypeMethodReply, reply, job)
				continue
			}
			signal(unit, f.result) // before the answer, which happens
			send(dbus.TypeMethodReply, reply, job)
		default:
			send(dbus.TypeMethodReply, reply)
		}
	}
}

// pid holds the properties against what systemd wants of them.
func (f *fakeSystemd) pid(m *dbus.Message) int {
	var properties []property
	var extra []auxiliary
	var unit, mode string
	types, _ := m.Headers[dbus.FieldSignature].Value().(dbus.Signature)
	if err := dbus.Store(m.Body, &unit, &mode, &properties, &extra); err != nil || mode != "fail" || types.String() != "ssa(sv)a(sa(sv))" {
		f.Errorf("%v: %q, %v, %v", types, mode, properties, err)
	}
	pid := 0
	delegate := false
	for _, p := range properties {
		switch v := p.Value.Value().(type) {
		case []uint32:
			pid = int(v[0])
		case bool:
			delegate = p.Name == "Delegate" && v
		}
	}
	if !delegate {
		f.Error("not delegated: ", properties)
	}
	return pid
}

func (f *fakeSystemd) methods() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.asked, " ")
}

func TestStartingAScope(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fakeSystemd)
		bus    bool
		kind   Kind
		words  string
		asked  string
	}{
		"by the manager": {func(*fakeSystemd) {}, false, "", "", "StartTransientUnit"},
		"by the bus":     {func(*fakeSystemd) {}, true, "", "", "Hello AddMatch Subscribe StartTransientUnit"},
		"the job fails":  {func(f *fakeSystemd) { f.result = "failed" }, false, NoSystemd, `the job ended as "failed"`, ""},
		"refused": {func(f *fakeSystemd) { f.refuse = "org.freedesktop.DBus.Error.AccessDenied" }, false, Denied,
			"StartTransientUnit \"u.scope\": org.freedesktop.DBus.Error.AccessDenied: not for you", ""},
		"refused otherwise":   {func(f *fakeSystemd) { f.refuse = "org.freedesktop.systemd1.UnitExists" }, false, NoSystemd, "UnitExists", ""},
		"no job":              {func(f *fakeSystemd) { f.result = "" }, false, TimedOut, "connection timed out", ""},
		"the connection ends": {func(f *fakeSystemd) { f.half = true }, false, NoSystemd, "StartTransientUnit", ""},
		"no answer":           {func(f *fakeSystemd) { f.mute = "StartTransientUnit" }, false, TimedOut, "connection timed out", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, c.change)
			until := time.Now().Add(10 * time.Second)
			if c.kind == TimedOut {
				until = time.Now().Add(500 * time.Millisecond)
			}
			m, err := socket{f.address, c.bus}.dial(os.Geteuid(), until)
			must(t, err)
			defer m.close()
			e := m.start("u.scope", 1)
			if c.kind == "" {
				if e != nil || f.methods() != c.asked {
					t.Errorf("%v after %s", e, f.methods())
				}
				return
			}
			if e == nil || e.Kind != c.kind || !strings.Contains(e.Error(), c.words) {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestSystemdThatCanNotBeReached(t *testing.T) {
	h := thisProcess()
	h.run = t.TempDir()
	h.euid = 0
	if _, e := h.dial(SystemdSystem, time.Now().Add(time.Second)); e == nil || e.Kind != NoSystemd || e.Errno != unix.ENOENT || !strings.Contains(e.Error(), "system_bus_socket") {
		t.Errorf("%+v", e)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unixexec:path=/bin/false;tcp:host=127.0.0.1,port=1")
	h.euid = 65534
	must(t, os.MkdirAll(h.run+"/user", 0o755))
	if _, e := h.dial(SystemdUser, time.Now().Add(time.Second)); e == nil || e.Kind != NoSystemd || e.Path != h.run+"/user/65534/bus" {
		t.Errorf("%+v", e)
	}
	f := newFake(t, func(f *fakeSystemd) { f.silent = true })
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+f.address+",guid=01;unix:abstract=confine-nobody")
	all := h.sockets()
	if len(all) != 4 || all[0].address != h.run+"/user/65534/systemd/private" || all[2] != (socket{f.address, true}) || all[3] != (socket{"@confine-nobody", true}) {
		t.Errorf("%+v", all)
	}
	began := time.Now()
	_, e := h.dial(SystemdUser, began.Add(200*time.Millisecond))
	if e == nil || time.Since(began) > 2*time.Second {
		t.Errorf("%+v after %v", e, time.Since(began))
	}
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	if all := h.sockets(); len(all) != 4 || all[0] != (socket{"/run/user/7/systemd/private", false}) || all[1] != (socket{"/run/user/7/bus", true}) {
		t.Errorf("%+v", all)
	}
}

func TestAnotherPIDNamespacesSystemdIsNotAsked(t *testing.T) {
	h := thisProcess()
	h.proc = t.TempDir()
	h.owner.spaces = 12 << 32
	must(t, os.Mkdir(h.proc+"/1", 0o755))
	must(t, os.WriteFile(h.proc+"/1/comm", []byte("sh\n"), 0o644))
	_, e := h.makeScope(site{source: SystemdUser}, &Options{Anchor: func() int { t.Error("asked"); return 0 }})
	if e == nil || e.Kind != NoSystemd || !strings.Contains(e.Error(), "pid namespace") {
		t.Errorf("%+v", e)
	}
	if _, e := h.lookScope(&facts{}, Offer{Source: SystemdUser}); e == nil || e.Kind != NoSystemd {
		t.Errorf("%+v", e)
	}
	must(t, os.WriteFile(h.proc+"/1/comm", []byte("systemd\n"), 0o644))
	if e := h.sameSystemd(SystemdUser); e != nil {
		t.Error(e)
	}
}

// The fake makes the scope in a real hierarchy, and what follows is as with systemd.
func TestAScope(t *testing.T) {
	p := newPlace(t)
	var idle atomic.Bool
	f := newFake(t, func(f *fakeSystemd) {
		f.scope = func(unit string, pid int) error {
			if idle.Load() {
				return nil
			}
			err := os.Mkdir(p.path+"/"+unit, 0o755)
			return errors.Join(err, os.WriteFile(p.path+"/"+unit+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0))
		}
	})
	p.set("cgroup.subtree_control", "+memory +pids +cpu")
	h := thisProcess()
	h.run, h.euid = path.Dir(f.address), 0
	must(t, os.Mkdir(h.run+"/systemd", 0o755))
	must(t, os.Symlink(f.address, h.run+"/systemd/private"))
	h.owner.spaces = initialPIDNamespace << 32
	init := start(t, sleeper())
	init.expect("ready")
	o := limits
	o.Anchor = func() int { return init.Process.Pid }
	g, e := h.makeAt(site{source: SystemdSystem}, &o)
	if e != nil {
		t.Fatal(e)
	}
	if mechanism, ok := g.Holds(Memory); !ok || mechanism != "memory.max" || g.Source() != SystemdSystem || path.Base(g.Path()) != runLeaf {
		t.Errorf("%q, %v, %s, %s", mechanism, ok, g.Source(), g.Path())
	}
	own, _ := os.ReadFile("/proc/" + strconv.Itoa(init.Process.Pid) + "/cgroup")
	if !strings.HasSuffix(strings.TrimSpace(string(own)), ".scope/"+initLeaf) {
		t.Errorf("the init is in %q", own)
	}
	fd, _ := g.Join()
	c := sleeper()
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
	start(t, c).expect("ready")
	must(t, init.Process.Kill())
	_ = init.Wait()
	scope := path.Dir(g.Path())
	must(t, g.Remove())
	if exists(scope) {
		t.Error("left: ", scope)
	}

	o.Anchor = func() int { return 0 }
	if _, e := h.makeAt(site{source: SystemdSystem}, &o); e == nil || e.Kind != NoSystemd || !strings.Contains(e.Error(), "without a process") {
		t.Errorf("%+v", e)
	}
	idle.Store(true) // and so the init stays where it was
	o.Anchor = os.Getpid
	if _, e := h.makeAt(site{source: SystemdSystem}, &o); e == nil || e.Kind != NoSystemd || !strings.Contains(e.Error(), "and not in confine-") {
		t.Errorf("%+v", e)
	}
}

// needSystemd skips where there is none to ask.
func needSystemd(t *testing.T) Source {
	t.Helper()
	offer := Look("")
	if offer.Source != SystemdUser && offer.Source != SystemdSystem {
		must(t, host.MustRun("systemd"))
		t.Skipf("no systemd: %+v", offer)
	}
	t.Logf("%+v", offer)
	return offer.Source
}

func TestRealSystemdGivesAScope(t *testing.T) {
	source := needSystemd(t)
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("killed=", killed), func(t *testing.T) {
			init := start(t, again("init"))
			init.expect("ready")
			began := time.Now()
			g := mustMake(t, Options{Limits: Limits{Memory: 50 * mib, Tasks: 100, CPUPercent: 50}, Account: true,
				Anchor: func() int { return init.Process.Pid }})
			t.Logf("made after %v: %s", time.Since(began), g.Path())
			if g.Source() != source || path.Base(g.Path()) != runLeaf || g.Version() != 2 {
				t.Errorf("%s, %s", g.Source(), g.Path())
			}
			for _, c := range []Controller{Memory, PIDs, CPU} {
				if _, ok := g.Holds(c); !ok && c != CPU {
					t.Error(g.WhyNot(c))
				} else if !ok {
					t.Log(g.WhyNot(c)) // users don't get it everywhere
				}
			}
			fmt.Fprintln(init.in, g.Path())
			target, err := strconv.Atoi(init.line())
			must(t, err)
			scope := path.Dir(g.Path())
			for pid, leaf := range map[int]string{init.Process.Pid: initLeaf, target: runLeaf} {
				own, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
				if !strings.HasSuffix(strings.TrimSpace(string(own)), "/"+path.Base(scope)+"/"+leaf) {
					t.Errorf("%d is in %q", pid, own)
				}
			}
			if s := g.Stat(); !s.Memory.Known || s.Tasks.N < 1 || !s.CPU.Known {
				t.Errorf("%+v", s)
			}
			if killed { // all of it, as when the namespace dies: nothing of ours removes anything
				must(t, unix.Kill(target, unix.SIGKILL))
				must(t, init.Process.Kill())
				_ = init.Wait()
			} else {
				must(t, g.Remove())
				if exists(g.Path()) {
					t.Error("left: ", g.Path())
				}
				must(t, init.in.Close())
				_ = init.Wait()
			}
			eventually(t, "the scope is gone", func() bool { return !exists(scope) })
		})
	}
}

func TestRealSystemdIsTheOnlyWriter(t *testing.T) {
	needSystemd(t)
	_, err := Make(limits) // without a process
	e, ok := err.(*Error)
	if !ok || e.Kind != NoSystemd || e.Next == nil || e.Next.Kind != Managed {
		t.Errorf("%v", err)
	}
}
