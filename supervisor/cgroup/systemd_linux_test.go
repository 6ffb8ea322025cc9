package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
)

// peer accepts connections and speaks as systemd does until it is asked for a scope. Then it says no more,
// or ends the connection.
func peer(t *testing.T, hangUp bool) (address string) {
	address = path.Join(t.TempDir(), "private")
	l, err := net.Listen("unix", address)
	must.Do(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					switch line := strings.Trim(lines.Text(), "\x00\r"); {
					case line == "AUTH": // which methods?
						_, _ = c.Write([]byte("REJECTED EXTERNAL\r\n"))
					case strings.HasPrefix(line, "AUTH EXTERNAL"):
						_, _ = c.Write([]byte("OK 0123456789abcdef0123456789abcdef\r\n"))
					case line == "BEGIN" && hangUp:
						return
					case line == "BEGIN":
						_, _ = io.Copy(io.Discard, c)
					default:
						_, _ = c.Write([]byte("ERROR\r\n"))
					}
				}
			}()
		}
	}()
	return address
}

func TestAScopeThatNobodyAnswersFor(t *testing.T) {
	for hangUp, kind := range map[bool]Kind{false: TimedOut, true: NoSystemd} {
		began := time.Now()
		m, err := socket{address: peer(t, hangUp)}.dial(os.Geteuid(), began.Add(300*time.Millisecond))
		must.Do(t, err)
		e := m.start("u.scope", 1)
		m.close()
		if e == nil || e.Kind != kind || time.Since(began) > 5*time.Second {
			t.Errorf("it hangs up: %v; %v after %v", hangUp, e, time.Since(began))
		}
	}
}

func TestRefusalsOfSystemd(t *testing.T) {
	for name, kind := range map[string]Kind{
		"org.freedesktop.DBus.Error.AccessDenied": Denied, "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired": Denied,
		"org.freedesktop.systemd1.UnitExists": NoSystemd,
	} {
		e := refusal("StartTransientUnit", "u.scope", dbus.Error{Name: name, Body: []any{"not for you"}})
		if want := `StartTransientUnit "u.scope": ` + name + ": not for you"; e.Kind != kind || e.Error() != want {
			t.Errorf("%s: %v, want %s", e.Kind, e, want)
		}
	}
}

func TestSystemdThatCanNotBeReached(t *testing.T) {
	h := thisProcess()
	h.run = t.TempDir()
	h.euid = 0
	if _, e := h.dial(time.Now().Add(time.Second)); e == nil || e.Kind != NoSystemd || e.Errno != unix.ENOENT || !strings.Contains(e.Error(), "system_bus_socket") {
		t.Errorf("%+v", e)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unixexec:path=/bin/false;tcp:host=127.0.0.1,port=1")
	h.euid = 65534
	must.Do(t, os.MkdirAll(h.run+"/user", 0o755))
	if _, e := h.dial(time.Now().Add(time.Second)); e == nil || e.Kind != NoSystemd || e.Path != h.run+"/user/65534/bus" {
		t.Errorf("%+v", e)
	}
	silent := path.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", silent)
	must.Do(t, err)
	defer l.Close()
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+silent+",guid=01;unix:abstract=confine-nobody")
	all := h.sockets()
	if len(all) != 4 || all[0].address != h.run+"/user/65534/systemd/private" || all[2] != (socket{silent, true}) || all[3] != (socket{"@confine-nobody", true}) {
		t.Errorf("%+v", all)
	}
	began := time.Now()
	_, e := h.dial(began.Add(200 * time.Millisecond))
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
	must.Do(t, os.Mkdir(h.proc+"/1", 0o755))
	must.Do(t, os.WriteFile(h.proc+"/1/comm", []byte("sh\n"), 0o644))
	_, e := h.makeScope(site{source: SystemdUser}, &Options{Anchor: func() int { t.Error("asked"); return 0 }})
	if e == nil || e.Kind != NoSystemd || !strings.Contains(e.Error(), "pid namespace") {
		t.Errorf("%+v", e)
	}
	if _, e := h.lookScope(&facts{}, Offer{Source: SystemdUser}); e == nil || e.Kind != NoSystemd {
		t.Errorf("%+v", e)
	}
	must.Do(t, os.WriteFile(h.proc+"/1/comm", []byte("systemd\n"), 0o644))
	if e := h.sameSystemd(); e != nil {
		t.Error(e)
	}
}

// needSystemd skips where there is none to ask.
func needSystemd(t *testing.T) Source {
	t.Helper()
	offer := Look("")
	if offer.Source != SystemdUser && offer.Source != SystemdSystem {
		must.Do(t, host.MustRun("systemd"))
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
			g := mustMake(t, Options{Limits: Limits{Memory: 50 * mib, Tasks: 100, CPUPercent: 50},
				Anchor: func() int { return init.Process.Pid }})
			t.Logf("made after %v: %s", time.Since(began), g.Path())
			if g.Source() != source || path.Base(g.Path()) != runLeaf || g.Version() != 2 {
				t.Errorf("%s, %s", g.Source(), g.Path())
			}
			for _, c := range []Controller{Memory, PIDs, CPU} {
				if ok, err := g.Holds(c); !ok && c != CPU {
					t.Error(err)
				} else if !ok {
					t.Log(err) // users don't get it everywhere
				}
			}
			fmt.Fprintln(init.in, g.Path())
			target, err := strconv.Atoi(init.line())
			must.Do(t, err)
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
				must.Do(t, unix.Kill(target, unix.SIGKILL))
				must.Do(t, init.Process.Kill())
				_ = init.Wait()
			} else {
				must.Do(t, g.Remove())
				if exists(g.Path()) {
					t.Error("left: ", g.Path())
				}
				must.Do(t, init.in.Close())
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
