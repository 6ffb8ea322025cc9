package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
)

// TestNothingOutlivesKilledSandboxes makes a thousand sandboxes (a third of that as root), by servers and as sessions. In one of three cases somebody is
// killed in the middle: the client, the server, or the supervisor of the session. No stream may end as if it were whole,
// and of none of them anything may be left.
func TestNothingOutlivesKilledSandboxes(t *testing.T) {
	t.Parallel()
	needs(t, "userns")
	const clients, servers = 8, 3
	made := 1000
	if os.Geteuid() == 0 {
		made /= 3
	}
	p := placeOf(t)
	must.Do(t, copyProgram(filepath.Join(scene.programs, "confine-server"), p.program("confine-server")))
	f := &assault{place: p, t: t, runtime: filepath.Join(p.own, "run"), counts: map[string]int{}}
	must.Do(t, os.Mkdir(f.runtime, 0o700))
	for i := range servers {
		f.servers = append(f.servers, &served{assault: f, socket: filepath.Join(p.own, "s"+strconv.Itoa(i))})
	}
	var group sync.WaitGroup
	next := make(chan int)
	for range clients {
		group.Go(func() {
			for i := range next {
				f.one(i)
			}
		})
	}
	for i := range made {
		next <- i
	}
	close(next)
	group.Wait()
	for _, s := range f.servers {
		s.end(syscall.SIGTERM)
	}
	if _, err := f.session(t.Context(), "gc"); err != nil {
		t.Errorf("session gc: %v", err)
	}
	if left, err := filepath.Glob(f.runtime + "/confine/sessions/*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if left := p.stays(); len(left) > 0 {
		t.Fatalf("left behind:\n%s", strings.Join(left, "\n"))
	}
	t.Log(f.counts)
	for _, what := range []string{"whole", "cut by the client", "cut by the server", "session", "session killed"} {
		if f.counts[what] == 0 {
			t.Errorf("not once: %s", what)
		}
	}
}

// assault is what the clients have in common.
type assault struct {
	*place
	t       *testing.T
	servers []*served
	runtime string // the directory of the sessions

	mu     sync.Mutex
	counts map[string]int
}

func (f *assault) count(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[what]++
}

// one makes a sandbox, and has something run in it.
func (f *assault) one(i int) {
	kill := rand.N(3) == 0
	if i%16 == 0 {
		f.hold(kill)
		return
	}
	s := f.servers[rand.N(len(f.servers))]
	client, err := s.started()
	if err != nil {
		f.t.Error(err)
		return
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	cut := "cut by the server"
	if kill {
		after := rand.N(150 * time.Millisecond)
		if rand.N(12) == 0 {
			time.AfterFunc(after, func() { s.end(syscall.SIGKILL) })
		} else {
			cut = "cut by the client"
			time.AfterFunc(after, cancel)
		}
	}
	switch err := f.stream(ctx, client); {
	case err == nil:
		f.count("whole")
	case errors.Is(err, errNoEnd):
		f.t.Error(err)
	case ctx.Err() != nil && cut == "cut by the server":
		f.t.Errorf("for a minute: %v", err)
	default:
		f.count(cut)
	}
}

var errNoEnd = errors.New("a stream ended as if it were whole, without its last frame")

// stream runs something in a sandbox of its own, and reads its frames.
func (f *assault) stream(ctx context.Context, client *http.Client) error {
	post := func(path, body string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://c"+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Accept", "application/x-ndjson")
		answer, err := client.Do(r)
		if err == nil && answer.StatusCode >= 300 {
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if ctx.Err() == nil && answer.Header.Get("Content-Type") != "application/problem+json" {
				f.t.Errorf("%s: %s: %s", path, answer.Status, text)
			}
			return nil, fmt.Errorf("%s: %s", answer.Status, text)
		}
		return answer, err
	}
	answer, err := post("/v1/sandboxes", `{"policy": {"time_limit": "1m", "memory_limit": "256M"}, "lifetime": "2m"}`)
	if err != nil {
		return err
	}
	var box struct{ ID string }
	err = json.NewDecoder(answer.Body).Decode(&box)
	_ = answer.Body.Close()
	if err != nil {
		return err
	}
	path := "/v1/sandboxes/" + box.ID
	if answer, err = post(path+"/exec", `{"argv": ["sh", "-c", "sleep 60 & echo begun; sleep 0.05; echo done"]}`); err != nil {
		return err
	}
	defer answer.Body.Close()
	last := ""
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		var frame struct{ Type string }
		if err := json.Unmarshal(lines.Bytes(), &frame); err != nil {
			return err
		}
		last = frame.Type
	}
	if lines.Err() != nil {
		return lines.Err()
	}
	if last != "exit" {
		return fmt.Errorf("%w: %q", errNoEnd, last)
	}
	if rand.N(2) == 0 { // else its server ends it
		r, _ := http.NewRequestWithContext(ctx, http.MethodDelete, "http://c"+path, nil)
		if answer, err := client.Do(r); err == nil {
			_ = answer.Body.Close()
		}
	}
	return nil
}

// session is a command on sessions. It gives what that prints.
func (f *assault) session(ctx context.Context, args ...string) (string, error) {
	cmd := f.command(ctx, "confine", append([]string{"session"}, args...)...)
	cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+f.runtime)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("session %s: %w: %s", args[0], err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// hold starts a session, runs something in it, and ends it.
func (f *assault) hold(kill bool) {
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	id, err := f.session(ctx, "start", "--lifetime", "2m")
	if err == nil {
		_, err = f.session(ctx, "exec", id, "--detach", "--", "sh", "-c", "sleep 60 & sleep 61")
	}
	what := "session"
	switch {
	case err != nil:
	case kill:
		what = "session killed"
		var text []byte
		var info struct{ PID int }
		if text, err = os.ReadFile(filepath.Join(f.runtime, "confine/sessions", id, "session")); err == nil {
			err = json.Unmarshal(text, &info)
		}
		if err == nil {
			err = syscall.Kill(info.PID, syscall.SIGKILL)
		}
	default:
		_, err = f.session(ctx, "stop", id)
	}
	if err != nil {
		f.t.Error(err)
	}
	f.count(what)
}

// served is a server that is started again whenever it was killed.
type served struct {
	*assault
	socket string

	mu   sync.Mutex
	cmd  *exec.Cmd // nil: none runs
	said strings.Builder
}

// started gives a client of the server that runs, or of one that it starts.
func (s *served) started() (*http.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	client := &http.Client{Transport: &http.Transport{DialContext: dialing(s.socket)}}
	if s.cmd != nil {
		return client, nil
	}
	cmd := s.command(context.Background(), "confine", "serve", "--listen", "unix:"+s.socket)
	s.said.Reset()
	cmd.Stderr = &s.said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.cmd = cmd
	var err error
	for range 600 {
		var answer *http.Response
		if answer, err = client.Get("http://c/v1/healthz"); err == nil {
			return client, answer.Body.Close()
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil, fmt.Errorf("the server doesn't answer on %s: %w, %s", s.socket, err, s.said.String())
}

// end ends the server, and waits for that.
func (s *served) end(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig)
	if err := s.cmd.Wait(); err != nil && sig != syscall.SIGKILL {
		s.t.Errorf("the server: %v", err)
	}
	if text := s.said.String(); strings.Count(text, "\n") > 1 {
		s.t.Errorf("the server said: %s", text) // more than where it listens
	}
	s.cmd = nil
}
