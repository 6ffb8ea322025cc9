package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
)

func dialing(socket string) func(ctx context.Context, _, _ string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
}

// moving are two servers, each behind a proxy that has somebody killed when one step of a teleport was done and nobody heard of it yet.
type moving struct {
	*place
	t       *testing.T
	servers map[string]*movingServer

	mu     sync.Mutex
	steps  int
	at     int    // the step after which somebody is killed; 0: nobody is
	whom   string // "client", or a server
	client *exec.Cmd
}

type movingServer struct {
	name, socket, state string
	cmd                 *exec.Cmd
	said                bytes.Buffer
	api                 *http.Client
}

func (m *moving) serve(name string) *movingServer {
	sockets, err := os.MkdirTemp("", "m") // short, because names of sockets are
	must.Do(m.t, err)
	m.t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	s := &movingServer{name: name, socket: filepath.Join(sockets, name), state: filepath.Join(m.own, "state-"+name)}
	dial := &http.Transport{DialContext: dialing(s.socket), DisableKeepAlives: true}
	s.api = &http.Client{Transport: dial, Timeout: 30 * time.Second}
	m.start(s)
	l, err := net.Listen("unix", s.socket+"-proxy")
	if err != nil {
		m.t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "confine"})
	proxy.Transport = dial
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { panic(http.ErrAbortHandler) }
	proxy.ErrorLog, proxy.ModifyResponse = nil, func(*http.Response) error { return m.step() }
	front := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = "confine"
		proxy.ServeHTTP(w, r)
	})}
	go front.Serve(l)
	m.t.Cleanup(func() { front.Close() })
	m.t.Cleanup(func() { m.kill(s) })
	return s
}

func (m *moving) start(s *movingServer) {
	s.cmd = m.command(m.t.Context(), "confine", "serve", "--listen", "unix:"+s.socket, "--state", s.state)
	s.said.Reset()
	s.cmd.Stderr = &s.said
	if err := s.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	if !must.Within(time.Minute, func() bool { // a busy host's other processes come before it
		answer, err := s.api.Get("http://c/v1/healthz")
		return err == nil && answer.Body.Close() == nil
	}) {
		m.t.Fatal("the server doesn't answer: ", s.said.String())
	}
}

func (m *moving) kill(s *movingServer) {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// step is one that was done. An error: nobody hears of it.
func (m *moving) step() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.steps++; m.steps != m.at {
		return nil
	}
	if m.whom == "client" {
		_ = m.client.Process.Kill()
	} else {
		m.kill(m.servers[m.whom])
	}
	return io.ErrUnexpectedEOF
}

// ask asks a server, and not by its proxy. One that isn't there has nothing.
func (m *moving) ask(s *movingServer, method, path string, body, into any) {
	m.t.Helper()
	if s.cmd == nil {
		return
	}
	text, _ := json.Marshal(body)
	r, err := http.NewRequest(method, "http://c"+path, bytes.NewReader(text))
	if err != nil {
		m.t.Fatal(err)
	}
	answer, err := s.api.Do(r)
	if err != nil {
		m.t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		text, _ := io.ReadAll(answer.Body)
		m.t.Fatalf("%s %s: %s %s", method, path, answer.Status, text)
	}
	if into != nil {
		if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
			m.t.Fatal(err)
		}
	}
}

type listed struct {
	ID, State string
}

// has says what a server has: sandboxes that run, those that stand still, and snapshots.
func (m *moving) has(s *movingServer) (running, still []string, snapshots int) {
	var boxes struct{ Sandboxes []listed }
	var snaps struct{ Snapshots []struct{ ID string } }
	m.ask(s, "GET", "/v1/sandboxes", nil, &boxes)
	m.ask(s, "GET", "/v1/snapshots", nil, &snaps)
	for _, b := range boxes.Sandboxes {
		switch b.State {
		case "running":
			running = append(running, b.ID)
		case "departing":
			still = append(still, b.ID)
		}
	}
	return running, still, len(snaps.Snapshots)
}

// teleport runs the client, and kills somebody after a step.
func (m *moving) teleport(id string, at int, whom string) (string, error) {
	m.mu.Lock()
	m.steps, m.at, m.whom = 0, at, whom
	m.client = m.command(m.t.Context(), "confine", "session", "teleport", id,
		"--from", "unix:"+m.servers["here"].socket+"-proxy", "--to", "unix:"+m.servers["there"].socket+"-proxy")
	var out, errs bytes.Buffer
	m.client.Stdout, m.client.Stderr = &out, &errs
	err := m.client.Start()
	m.mu.Unlock()
	if err == nil {
		err = m.client.Wait()
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errs.String())
	}
	return strings.TrimSpace(out.String()), err
}

// Whoever is killed, and when: one of two servers has the sandbox, running or written down, and never do both have it running.
func TestOneOfTwoServersHasATeleportedSandbox(t *testing.T) {
	t.Parallel()
	needs(t, "userns", "overlay")
	m := &moving{place: placeOf(t), t: t, servers: map[string]*movingServer{}}
	must.Do(t, copyProgram(filepath.Join(scene.programs, "confine-server"), m.program("confine-server")))
	for _, name := range []string{"here", "there"} {
		m.servers[name] = m.serve(name)
	}
	here, there := m.servers["here"], m.servers["there"]
	steps := 0
	for at := 0; at == 0 || at <= steps; at++ {
		for _, whom := range []string{"client", "here", "there"} {
			if at == 0 && whom != "client" || at > 0 && at == steps && whom == "there" {
				continue // nobody is killed; or a server with a sandbox that is all its own
			}
			var made listed
			m.ask(here, "POST", "/v1/sandboxes", map[string]any{}, &made)
			m.ask(here, "POST", "/v1/sandboxes/"+made.ID+"/exec", map[string]any{"argv": []string{"sh", "-c", "echo was there >/tmp/word"}}, nil)
			id, err := m.teleport(made.ID, at, whom)
			if at == 0 {
				must.Do(t, err)
				steps = m.steps
			} else if err == nil && m.steps < at {
				t.Errorf("nobody was killed at %d", at)
			}
			what := fmt.Sprintf("%s killed after step %d of %d", whom, at, steps)
			a, still, kept := m.has(here)
			b, _, keptThere := m.has(there)
			if n := len(a) + len(b); n > 1 || n+len(still)+kept+keptThere == 0 && here.cmd != nil && there.cmd != nil {
				t.Errorf("%s: here %v, standing still %v, %d snapshots; there %v, %d snapshots", what, a, still, kept, b, keptThere)
			}
			for _, s := range m.servers {
				if s.cmd == nil {
					m.start(s)
				}
			}
			// Said once more, it comes to its end, if the server that it is to leave still stands.
			if len(still) > 0 {
				if id, err = m.teleport(made.ID, 0, ""); err != nil {
					t.Errorf("%s: said once more: %v", what, err)
				}
			}
			_, still, kept = m.has(here)
			running, _, keptThere := m.has(there)
			if len(still) > 0 || len(running)+kept+keptThere == 0 {
				t.Errorf("%s: in the end here %v standing still, and %d snapshots; there %v, %d snapshots", what, still, kept, running, keptThere)
			}
			if id != "" && len(running) == 1 {
				if answer, err := there.api.Get("http://c/v1/sandboxes/" + id + "/files/tmp/word"); err != nil {
					t.Error(err)
				} else if text, _ := io.ReadAll(answer.Body); string(text) != "was there\n" {
					t.Errorf("%s: what it has with it is %q", what, text)
				}
			}
			// The next one begins with nothing.
			for _, s := range m.servers {
				running, still, _ := m.has(s)
				for _, id := range append(running, still...) {
					m.ask(s, "DELETE", "/v1/sandboxes/"+id, nil, nil)
				}
				var snaps struct{ Snapshots []struct{ ID string } }
				m.ask(s, "GET", "/v1/snapshots", nil, &snaps)
				for _, one := range snaps.Snapshots {
					m.ask(s, "DELETE", "/v1/snapshots/"+one.ID, nil, nil)
				}
			}
		}
	}
	if steps < 6 {
		t.Errorf("a teleport of %d steps", steps)
	}
}
