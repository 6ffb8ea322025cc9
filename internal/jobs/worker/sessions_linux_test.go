package worker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/jobs/jobstest"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/serve"
)

// short is a lease for tests that wait for its end; of others it lasts, however busy this host is.
const short = 3 * time.Second

// joined hires a worker, and gives its name.
func (s *scene) joined(h hired) (*exec.Cmd, string) {
	s.Helper()
	h.URL, h.Dir = cmp.Or(h.URL, s.url), s.TempDir()
	h.Lease, h.Said = cmp.Or(h.Lease, time.Minute), filepath.Join(s.TempDir(), "said")
	cmd := hire(s.TB, h)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		text, _ := os.ReadFile(h.Said)
		_, rest, ok := strings.Cut(string(text), "takes jobs as ")
		if name, _, whole := strings.Cut(rest, ":"); ok && whole {
			return cmd, name
		}
	}
	s.Fatal("no worker came")
	return nil, ""
}

// at is a client of a worker.
func (s *scene) at(account, worker string) *serve.Client {
	c := serve.NewClientBy(func(ctx context.Context) (net.Conn, error) {
		return jobs.SessionsOf(s.Queue).Reach(ctx, account, worker)
	})
	s.Cleanup(c.CloseIdleConnections)
	return c
}

type doc map[string]any

// open opens a session, and gives its ID.
func (s *scene) open(account, worker string, ask doc) (string, error) {
	var made struct {
		ID string `json:"id"`
	}
	ask["policy"] = doc{"memory_limit": "32M"}
	err := s.at(account, worker).Do(s.Context(), http.MethodPost, "/v1/sandboxes", ask, &made)
	return made.ID, err
}

func (s *scene) mustOpen(worker, name string) string {
	s.Helper()
	id, err := s.open("default", worker, doc{"name": name})
	must.Do(s.TB, err)
	return id
}

// sh runs a script in the session of a name, wherever that is.
func (s *scene) sh(name, script string) (string, error) {
	s.Helper()
	k, err := jobs.SessionsOf(s.Queue).Find(s.Context(), "default", name)
	if err != nil {
		return "", err
	}
	var r struct {
		Report struct {
			RC int `json:"rc"`
		} `json:"report"`
		Stdout string `json:"stdout"`
	}
	err = s.at("default", k.Worker).Do(s.Context(), http.MethodPost, "/v1/sandboxes/"+k.ID+"/exec", doc{"argv": []string{"sh", "-c", script}}, &r)
	if err == nil && r.Report.RC != 0 {
		err = errors.New(script + " failed")
	}
	return strings.TrimSpace(r.Stdout), err
}

func (s *scene) record(name string) *jobs.Session {
	s.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // servers may be away
		k, err := jobs.SessionsOf(s.Queue).Get(s.Context(), jobs.SessionKey{Account: "default", Name: name})
		if err == nil && k.Session != nil {
			return k.Session
		}
		if time.Now().After(end) {
			s.Fatalf("%+v, %v", k, err)
		}
	}
}

// look asks a worker about a session.
func (s *scene) look(worker, name string) (*jobs.Session, error) {
	var now jobs.Session
	patient, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	err := s.at("default", worker).Do(patient, http.MethodPost, "/more/sessions/"+name+"/look", nil, &now)
	return &now, err
}

func (s *scene) move(from, name, to string) (*jobs.Session, error) {
	var now jobs.Session
	patient, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	err := s.at("default", from).Do(patient, http.MethodPost, "/more/sessions/"+name+"/move", doc{"to": to}, &now)
	return &now, err
}

func TestASessionIsFoundByNameAndMoves(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	_, first := s.joined(hired{})
	_, second := s.joined(hired{})
	id, err := s.open("default", first, doc{"name": "work", "lifetime": "1h"})
	must.Do(t, err)
	ends := func(worker string) time.Time {
		var b struct {
			Deadline time.Time `json:"deadline"`
		}
		must.Do(t, s.at("default", worker).Do(t.Context(), http.MethodGet, "/v1/sandboxes/work", nil, &b))
		return b.Deadline
	}
	deadline := ends(first)
	if r := s.record("work"); r.Worker != first || r.ID != id || r.State != jobs.SessionRunning || r.Policy == "" {
		t.Errorf("%+v", r)
	}
	if _, err := s.sh("work", "echo hello >/tmp/greeting"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.sh(id, "cat /tmp/greeting"); err != nil || got != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	// Its name is taken everywhere, and nothing of who tried stays.
	for _, worker := range []string{first, second} {
		var refused *serve.Error
		if id, err := s.open("default", worker, doc{"name": "work"}); !errors.As(err, &refused) || refused.Status != http.StatusConflict {
			t.Errorf("%s: %q, %v", worker, id, err)
		}
	}
	if now, err := s.move(first, "work", second); err != nil || now.Worker != second || now.ID == id || now.Moves != 1 || now.Move != nil {
		t.Fatalf("%+v, %v", now, err)
	}
	if got, err := s.sh("work", "cat /tmp/greeting"); err != nil || got != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if d := ends(second).Sub(deadline).Abs(); d > 20*time.Second {
		t.Errorf("its lifetime ends %v elsewhere", d)
	}
	var left struct {
		State string `json:"state"`
		Ended *struct {
			Cause string `json:"cause"`
		} `json:"ended"`
	}
	if err := s.at("default", first).Do(t.Context(), http.MethodGet, "/v1/sandboxes/"+id, nil, &left); err != nil || left.State != "ended" || left.Ended.Cause != "departed" {
		t.Errorf("%+v, %v", left, err)
	}
	// And back, and then it ends, and its name is free.
	if now, err := s.move(second, "work", first); err != nil || now.Worker != first {
		t.Fatalf("%+v, %v", now, err)
	}
	must.Do(t, s.at("default", first).Do(t.Context(), http.MethodDelete, "/v1/sandboxes/"+s.record("work").ID, nil, nil))
	s.untilSession("work", jobs.SessionEnded)
	s.mustOpen(second, "work")
}

// untilSession waits until a session is in a state by its record.
func (s *scene) untilSession(name string, state jobs.SessionState) *jobs.Session {
	s.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		r := s.record(name)
		if r.State == state {
			return r
		}
		if time.Now().After(end) {
			s.Fatalf("%s is %+v", name, r)
		}
	}
}

func TestSessionsOfAccountsAreApart(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	_, w := s.joined(hired{Pattern: "confine.sessions.default.>", Ceiling: "standard"})
	id := s.mustOpen(w, "mine")
	var refused *serve.Error
	if _, err := s.open("other", w, doc{"name": "mine"}); !errors.As(err, &refused) || refused.Status != http.StatusForbidden {
		t.Errorf("an account that no ceiling is for: %v", err)
	}
	_, open := s.joined(hired{})
	for _, path := range []string{"/v1/sandboxes/" + id, "/v1/sandboxes/mine"} {
		if err := s.at("other", open).Do(t.Context(), http.MethodGet, path, nil, nil); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := s.open("other", open, doc{"name": "mine"}); err != nil {
		t.Errorf("the same name in another account: %v", err)
	}
	for _, name := range []string{"a.b", "*", ">", "a b", "-x", "ü", strings.Repeat("x", 65), "../x", "a\nb"} {
		if _, err := s.open("default", open, doc{"name": name}); !errors.As(err, &refused) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
	if _, err := s.open("default", w, doc{"name": "wide", "dir": "/root"}); !errors.As(err, &refused) {
		t.Errorf("a directory of the worker's host: %v", err)
	}
	if _, err := s.look(open, "nobody"); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		t.Errorf("%v", err)
	}
}

func TestASessionWhoseWorkerDiedIsLostByName(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	cmd, first := s.joined(hired{Lease: short})
	_, second := s.joined(hired{})
	s.mustOpen(first, "lost")
	if _, err := s.sh("lost", "echo kept >/tmp/f"); err != nil {
		t.Fatal(err)
	}
	var stored jobs.Stored
	if err := s.at("default", first).Do(t.Context(), http.MethodPost, "/more/sessions/lost/snapshot", doc{"name": "before"}, &stored); err != nil || stored.File == "" {
		t.Fatalf("%+v, %v", stored, err)
	}
	kill(cmd)
	if now, err := s.look(second, "lost"); err != nil || now.State != jobs.SessionLost || now.Snapshot != stored.ID || !strings.Contains(now.Reason, first) {
		t.Fatalf("%+v, %v", now, err)
	}
	must.Do(t, s.at("default", second).Do(t.Context(), http.MethodPost, "/more/snapshots/before", nil, nil))
	if _, err := s.open("default", second, doc{"name": "lost", "from": stored.ID}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.sh("lost", "cat /tmp/f"); err != nil || got != "kept" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestAMoveIsKilledAtEachStep: whichever of the two workers is killed, and wherever, one of them has the session then, with its files, or, when that one was killed
// while it had it alone, it is told to be lost.
func TestAMoveIsKilledAtEachStep(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	_, third := s.joined(hired{})
	for _, c := range []struct {
		step string
		from bool // the one that it comes from is killed, else the other
		want jobs.SessionState
		at   string // who has it then
	}{
		{stepDepart, true, jobs.SessionLost, ""},
		{stepStore, true, jobs.SessionLost, ""},
		{stepOffer, true, jobs.SessionLost, ""},
		{stepAsk, true, jobs.SessionRunning, "third"},
		{stepEnd, true, jobs.SessionRunning, "to"},
		{stepClaim, false, jobs.SessionRunning, "from"},
		{stepFetch, false, jobs.SessionRunning, "from"},
		{stepCreate, false, jobs.SessionRunning, "from"},
		{stepArrive, false, jobs.SessionRunning, "from"},
		{stepAnswer, false, jobs.SessionLost, ""},
	} {
		name := c.step
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &scene{t, s.Queue, s.url, s.dir}
			killed := hired{KillAt: c.step, Lease: short}
			froms, tos := hired{Lease: short}, killed
			if c.from {
				froms, tos = killed, froms
			}
			dying, from := s.joined(froms)
			other, to := s.joined(tos)
			if !c.from {
				dying = other
			}
			s.mustOpen(from, name)
			if _, err := s.sh(name, "echo "+name+" >/tmp/f"); err != nil {
				t.Fatal(err)
			}
			enough := s.keepMoving(from, name, to)
			died := make(chan error, 1)
			go func() { died <- dying.Wait() }()
			select {
			case <-died: // it has come to the step
			case <-time.After(time.Minute):
				t.Fatal("the step was never reached")
			}
			enough()
			names := map[string]string{"from": from, "to": to, "third": third}
			var now *jobs.Session
			for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
				var err error
				if now, err = s.look(third, name); err == nil && now.State == c.want && (c.at == "" || now.Worker == names[c.at]) {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%+v, %v", now, err)
				}
			}
			if c.want == jobs.SessionLost {
				return
			}
			for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
				got, err := s.sh(name, "cat /tmp/f")
				if err == nil && got == name {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%q, %v", got, err)
				}
			}
		})
	}
}

// keepMoving asks for a move until somebody has enough of that: on a host that is busy, servers may not answer at first.
func (s *scene) keepMoving(from, name, to string) (enough func()) {
	asked, enough := context.WithCancel(s.Context())
	go func() {
		for asked.Err() == nil {
			_ = s.at("default", from).Do(asked, http.MethodPost, "/more/sessions/"+name+"/move", doc{"to": to}, nil)
		}
	}()
	s.Cleanup(enough)
	return enough
}

func TestManyBytesGoThroughASession(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	_, w := s.joined(hired{})
	id := s.mustOpen(w, "big")
	const size = 24 << 20
	want := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	c := s.at("default", w)
	must.Do(t, c.Put(t.Context(), http.MethodPut, "/v1/sandboxes/"+id+"/files/tmp/big", bytes.NewReader(want)))
	var got bytes.Buffer
	if err := c.Get(t.Context(), "/v1/sandboxes/"+id+"/files/tmp/big", &got); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes, %v", got.Len(), err)
	}
	// It fills its memory before the worker's.
	if err := c.Put(t.Context(), http.MethodPut, "/v1/sandboxes/"+id+"/files/tmp/more", io.LimitReader(zeros{}, 200<<20)); err == nil {
		t.Error("200 MiB fit into 32")
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
