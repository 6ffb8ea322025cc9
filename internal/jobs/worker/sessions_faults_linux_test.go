package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/jobs/jobstest"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/serve"
)

// TestSessionsOutliveServers: of a cluster of three, each server is killed and started again, one after the other, while a session writes, and then while it moves.
func TestSessionsOutliveServers(t *testing.T) {
	t.Parallel()
	servers := jobstest.Cluster(t, 3)
	var urls []string
	for _, p := range servers {
		urls = append(urls, "nats://127.0.0.1:"+strconv.Itoa(p.Port))
	}
	s := set(t, strings.Join(urls, ","))
	_, first := s.joined(hired{})
	_, second := s.joined(hired{})
	id := s.mustOpen(first, "work")
	c := s.at("default", first)
	const lines = 150
	var p struct {
		Process int `json:"process"`
	}
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo line $i; i=$((i+1)); sleep 0.02; done; echo kept >/tmp/f; exit 7", lines)
	must.Do(t, c.Do(t.Context(), http.MethodPost, "/v1/sandboxes/"+id+"/exec", doc{"argv": []string{"sh", "-c", script}, "detach": true}, &p))
	restart := func(i int) {
		servers[i].Signal(syscall.SIGKILL)
		servers[i].Start()
	}
	var out strings.Builder
	rc, killed := -1, 0
	err := c.Frames(t.Context(), fmt.Sprintf("/v1/sandboxes/%s/processes/%d/output", id, p.Process), 0, sandboxes.FrameExit, func(f *sandboxes.Frame) error {
		switch f.Type {
		case sandboxes.FrameStdout:
			out.Write(f.Bytes())
			if strings.Count(out.String(), "\n") > 20+40*killed && killed < 3 {
				restart(killed)
				killed++
			}
		case sandboxes.FrameExit:
			rc = f.Report.RC
		}
		return nil
	})
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if err != nil || rc != 7 || killed != 3 || out.String() != want.String() {
		t.Errorf("%v, rc %d, %d killed, %d bytes of %d", err, rc, killed, out.Len(), want.Len())
	}
	// It moves, or stays; and is at one of the two.
	moved := make(chan error, 1)
	go func() {
		_, err := s.move(first, "work", second)
		moved <- err
	}()
	restart(0)
	err = <-moved
	s.eventually("it is somewhere", func() bool {
		got, failed := s.sh("work", "cat /tmp/f")
		return failed == nil && got == "kept"
	})
	t.Logf("moved: %v", err)
	if n := s.standing("work", first, second); n != 1 {
		t.Errorf("%d workers have it", n)
	}
}

// standing counts the workers at which a session of a name runs.
func (s *scene) standing(name string, workers ...string) (n int) {
	s.Helper()
	for _, w := range workers {
		one := s.has(name, w)
		if one < 0 {
			s.Fatalf("%s does not answer", w)
		}
		n += one
	}
	return n
}

// has counts the sessions of a name at a worker; -1: it doesn't say.
func (s *scene) has(name, worker string) (n int) {
	var all struct {
		Sandboxes []struct {
			Name  string `json:"name"`
			State string `json:"state"`
		} `json:"sandboxes"`
	}
	if err := s.at("default", worker).Do(s.Context(), http.MethodGet, "/v1/sandboxes", nil, &all); err != nil {
		return -1
	}
	for _, b := range all.Sandboxes {
		if b.Name == name && b.State != "ended" {
			n++
		}
	}
	return n
}

// TestASessionOutlivesWhoAsked: whoever asked for a process, or a move, is gone in the middle of it, as if killed.
func TestASessionOutlivesWhoAsked(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	_, first := s.joined(hired{})
	_, second := s.joined(hired{})
	id := s.mustOpen(first, "work")
	asking := func() *scene {
		q, err := (&hired{URL: s.url, AckWait: time.Second}).queue(t.Context())
		must.Do(t, err)
		return &scene{t, q, s.url, s.dir}
	}
	one := asking()
	begun := make(chan bool, 1)
	gone := make(chan error, 1)
	go func() {
		_, err := one.sh("work", "echo begun >/tmp/begun; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo on >/tmp/f")
		gone <- err
	}()
	go func() {
		for {
			if got, _ := s.sh("work", "cat /tmp/begun"); got == "begun" {
				begun <- true
				return
			}
		}
	}()
	<-begun
	one.Close()
	if err := <-gone; err == nil {
		t.Error("whoever is gone got an answer")
	}
	if _, err := s.sh("work", "touch /tmp/go"); err != nil {
		t.Fatal(err)
	}
	s.eventually("the process goes on", func() bool {
		got, _ := s.sh("work", "cat /tmp/f")
		return got == "on"
	})
	s.eventually("it has ended", func() bool {
		var b struct {
			Processes int `json:"processes"`
		}
		return s.at("default", first).Do(t.Context(), http.MethodGet, "/v1/sandboxes/"+id, nil, &b) == nil && b.Processes == 0
	})
	two := asking()
	c := two.at("default", first)
	asked, cancel := context.WithCancel(t.Context())
	go func() {
		s.eventually("the move begins", func() bool { return s.record("work").State != jobs.SessionRunning || s.record("work").Moves > 0 })
		cancel()
		two.Close()
	}()
	_ = c.Do(asked, http.MethodPost, "/more/sessions/work/move", doc{"to": second}, nil)
	s.eventually("it has moved", func() bool { r := s.record("work"); return r.State == jobs.SessionRunning && r.Worker == second })
	if got, err := s.sh("work", "cat /tmp/f"); err != nil || got != "on" {
		t.Errorf("%q, %v", got, err)
	}
}

func (s *scene) eventually(what string, ok func() bool) {
	s.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.Error("never: " + what)
			return
		}
	}
}

// TestAWorkerThatIsCutOffEndsItsSessionsBeforeTheyAreLost: while nobody knows, nobody else may begin; when it is told, nothing of it runs.
func TestAWorkerThatIsCutOffEndsItsSessionsBeforeTheyAreLost(t *testing.T) {
	t.Parallel()
	ports := jobstest.Ports(t, 1)
	server := &jobstest.Config{Port: ports[0]}
	s := set(t, jobstest.Inside(t, server.On))
	link := jobstest.NewLink(t, ports[0])
	_, first := s.joined(hired{URL: link.URL(), Lease: short})
	_, second := s.joined(hired{})
	id := ""
	ask := doc{"name": "cut", "policy": doc{"memory_limit": "32M", "allow_write": []string{s.dir}}}
	var made struct {
		ID string `json:"id"`
	}
	must.Do(t, s.at("default", first).Do(t.Context(), http.MethodPost, "/v1/sandboxes", ask, &made))
	id = made.ID
	ticks := s.file("cut", 0)
	if err := s.at("default", first).Do(t.Context(), http.MethodPost, "/v1/sandboxes/"+id+"/exec",
		doc{"argv": []string{"sh", "-c", "while :; do echo tick >>" + ticks + "; sleep 0.02; done"}, "detach": true}, nil); err != nil {
		t.Fatal(err)
	}
	s.eventually("it runs", func() bool { return len(s.lines("cut", 0)) > 3 })
	link.Cut()
	now, err := s.look(second, "cut")
	if err != nil || now.State != jobs.SessionLost {
		t.Fatalf("%+v, %v", now, err)
	}
	before := len(s.lines("cut", 0))
	s.mustOpen(second, "cut")
	if after := len(s.lines("cut", 0)); after != before {
		t.Errorf("it went on: %d, then %d", before, after)
	}
	link.Mend()
	s.eventually("the worker is back under another name", func() bool {
		all, err := s.Workers(t.Context())
		return err == nil && len(all) == 2
	})
	if now := s.record("cut"); now.Worker != second || now.State != jobs.SessionRunning {
		t.Errorf("who was cut off has written: %+v", now)
	}
}

// TestAMoveWhoseSnapshotIsGoneStays: what the servers' clocks do when they jump, or an operator, while a session is on its way.
func TestAMoveWhoseSnapshotIsGoneStays(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	_, first := s.joined(hired{})
	s.mustOpen(first, "work")
	if _, err := s.sh("work", "echo kept >/tmp/f"); err != nil {
		t.Fatal(err)
	}
	// A worker that is a test: it claims nothing before the file is gone.
	id, err := jobs.NewIdentity()
	must.Do(t, err)
	lease, err := s.Enlist(t.Context(), jobs.WorkerInfo{Lease: 60, Identity: id.Digest})
	must.Do(t, err)
	failed := make(chan error, 1)
	go func() {
		_, err := s.move(first, "work", lease.Name)
		failed <- err
	}()
	if err := <-failed; err == nil {
		t.Error("it has moved to a worker that nobody reaches")
	}
	if got, err := s.sh("work", "cat /tmp/f"); err != nil || got != "kept" {
		t.Errorf("%q, %v", got, err)
	}
	// The same with a file that is there no more: what was stored is taken away while it is offered.
	_, second := s.joined(hired{})
	_, js := jobstest.Client(t, s.url)
	stop := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if stream, err := js.Stream(t.Context(), "OBJ_confine-files"); err == nil {
				_ = stream.Purge(t.Context())
			}
		}
	}()
	_, err = s.move(first, "work", second)
	close(stop)
	<-gone
	if r := s.record("work"); err == nil && r.Worker != second || err != nil && (r.Worker != first || r.State != jobs.SessionRunning || r.Move != nil) {
		t.Errorf("%+v, %v", r, err)
	}
	if got, err := s.sh("work", "cat /tmp/f"); err != nil || got != "kept" {
		t.Errorf("%q, %v", got, err)
	}
	if n := s.standing("work", first, second); n != 1 {
		t.Errorf("%d workers have it", n)
	}
}

// TestAMoveThatFitsNowhereStays: neither the servers' store, nor the disk of a worker, has room for its snapshot.
func TestAMoveThatFitsNowhereStays(t *testing.T) {
	t.Parallel()
	url := jobstest.Inside(t)
	small, err := jobs.Open(t.Context(), jobs.Options{URL: url, AckWait: time.Second, Store: 32 << 20})
	must.Do(t, err)
	small.Close()
	s := set(t, url)
	_, first := s.joined(hired{Disk: 64 << 20}) // who has a disk has a user namespace, with this user alone: both, or they know other owners of files
	_, second := s.joined(hired{Disk: 2 << 20})
	s.mustOpen(first, "work")
	for _, c := range []struct {
		what string
		mib  int
	}{{"the servers", 20}, {"the other worker", 4}} {
		if _, err := s.sh("work", fmt.Sprintf("head -c %d /dev/urandom >/tmp/f", c.mib<<20)); err != nil {
			t.Fatal(err)
		}
		if now, err := s.move(first, "work", second); err == nil {
			t.Errorf("%s had room: %+v", c.what, now)
		}
		if got, err := s.sh("work", "stat -c %s /tmp/f"); err != nil || got != strconv.Itoa(c.mib<<20) {
			t.Errorf("%s: %q, %v", c.what, got, err)
		}
		if n := s.standing("work", first, second); n != 1 {
			t.Errorf("%s: %d workers have it", c.what, n)
		}
	}
	if _, err := s.sh("work", "echo little >/tmp/f"); err != nil {
		t.Fatal(err)
	}
	if now, err := s.move(first, "work", second); err != nil || now.Worker != second {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestTheTimeOfDayIsOnlyTold: records say times of hosts whose clocks are wrong by years, and nothing becomes of that.
func TestTheTimeOfDayIsOnlyTold(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	_, first := s.joined(hired{Lease: short})
	_, second := s.joined(hired{Lease: short})
	for i, at := range []time.Time{time.Unix(1, 0), time.Now().AddDate(90, 0, 0)} {
		name := "wrong" + strconv.Itoa(i)
		s.mustOpen(first, name)
		key := jobs.SessionKey{Account: "default", Name: name}
		if _, err := jobs.SessionsOf(s.Queue).Change(t.Context(), key, func(k jobs.KeptSession) (*jobs.Session, error) {
			next := *k.Session
			next.Created, next.Ended = at, at
			return &next, nil
		}); err != nil {
			t.Fatal(err)
		}
		if now, err := s.look(second, name); err != nil || now.State != jobs.SessionRunning {
			t.Errorf("%+v, %v", now, err)
		}
		if now, err := s.move(first, name, second); err != nil || now.Worker != second {
			t.Errorf("%+v, %v", now, err)
		}
	}
	// Of each file that decides, times of day go into records, and are not looked at again.
	for _, file := range []string{"sessions.go", "move.go", "worker.go", "../sessions.go", "../reach.go", "../lease.go", "../peers.go"} {
		text, err := os.ReadFile(file)
		must.Do(t, err)
		if now := strings.Count(string(text), "time.Now()"); now != strings.Count(string(text), "time.Now().UTC()") {
			t.Errorf("%s reads the time of day for something else than to tell it", file)
		}
		if strings.Contains(string(text), "time.Since(") {
			t.Errorf("%s compares the time of day", file)
		}
	}
}

// TestHostileRecords: what somebody writes into a record leads nowhere.
func TestHostileRecords(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	_, w := s.joined(hired{})
	all := jobs.SessionsOf(s.Queue)
	for i, r := range []jobs.Session{
		{State: jobs.SessionRunning, Worker: ">", ID: "x"},
		{State: jobs.SessionRunning, Worker: "*.*", ID: "../.."},
		{State: jobs.SessionMoving, Worker: "x", Move: nil},
		{State: jobs.SessionMoving, Worker: "x", Move: &jobs.Move{From: "y", To: w, Token: "t", Create: json.RawMessage(`[]`)}},
		{State: jobs.SessionMoving, Worker: "x", Move: &jobs.Move{From: "y", To: w, Create: json.RawMessage(`{"policy":{},"name":"other"}`), Snapshot: jobs.Stored{ID: "../../x", File: "../x"}}},
		{State: "no state", Worker: w, ID: "x"},
	} {
		name := "hostile" + strconv.Itoa(i)
		r.Account, r.Name = "default", name
		if _, err := all.Put(t.Context(), jobs.KeptSession{Key: jobs.SessionKey{Account: "default", Name: name}}, &r); err != nil {
			t.Fatal(err)
		}
		for _, ask := range []string{"arrive", "snapshot", "look", "move"} {
			short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			var refused *serve.Error
			var now jobs.Session
			err := s.at("default", w).Do(short, http.MethodPost, "/more/sessions/"+name+"/"+ask, doc{"to": "elsewhere"}, &now)
			cancel()
			if err == nil && ask != "look" {
				t.Errorf("%s of %+v is done: %+v", ask, r, now)
			}
			if err != nil && !errors.As(err, &refused) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s of %+v: %v", ask, r, err)
			}
		}
	}
	if _, err := s.open("default", w, doc{"name": "still"}); err != nil {
		t.Error(err)
	}
}

// TestAnAccountWithManyConnectionsLeavesRoomForOthers: who opens as many as there can be, and says nothing, keeps nobody else out.
func TestAnAccountWithManyConnectionsLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	s := set(t, jobstest.Inside(t))
	_, w := s.joined(hired{})
	s.mustOpen(w, "work")
	greedy := 0
	for range maxVisits + 40 {
		if c, err := jobs.SessionsOf(s.Queue).Reach(t.Context(), "greedy", w); err == nil {
			defer c.Close()
			greedy++
		}
	}
	if greedy != maxVisits {
		t.Errorf("%d connections of one account", greedy)
	}
	if got, err := s.sh("work", "echo on"); err != nil || got != "on" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestAMoveIsCutOffAtEachStep: one of the two workers hears nothing and is not heard from a step of the move on, and knows nothing of that. One has the session
// then, or it is told to be lost; and when the way is mended, whoever was cut off has it no more.
func TestAMoveIsCutOffAtEachStep(t *testing.T) {
	t.Parallel()
	ports := jobstest.Ports(t, 1)
	server := &jobstest.Config{Port: ports[0]}
	s := set(t, jobstest.Inside(t, server.On))
	_, third := s.joined(hired{})
	for _, c := range []struct {
		step string
		from bool // the one that it comes from is cut off, else the other
		want jobs.SessionState
		at   string // who has it then
	}{
		{stepStore, true, jobs.SessionLost, ""},
		{stepOffer, true, jobs.SessionLost, ""},
		{stepAsk, true, jobs.SessionRunning, "third"},
		{stepClaim, false, jobs.SessionRunning, "from"},
		{stepFetch, false, jobs.SessionRunning, "from"},
		{stepArrive, false, jobs.SessionRunning, "from"},
		{stepAnswer, false, jobs.SessionLost, ""},
	} {
		t.Run(c.step, func(t *testing.T) {
			t.Parallel()
			s := &scene{t, s.Queue, s.url, s.dir}
			link, at := jobstest.NewLink(t, ports[0]), s.file("at-"+c.step, 0)
			cut := hired{URL: link.URL(), WaitAt: c.step, At: at, Lease: short}
			froms, tos := hired{}, cut
			if c.from {
				froms, tos = cut, froms
			}
			_, from := s.joined(froms)
			_, to := s.joined(tos)
			s.mustOpen(from, c.step)
			if _, err := s.sh(c.step, "echo "+c.step+" >/tmp/f"); err != nil {
				t.Fatal(err)
			}
			enough := s.keepMoving(from, c.step, to)
			s.eventually("the step is reached", func() bool { _, err := os.Stat(at); return err == nil })
			enough()
			link.Cut()
			_ = os.Remove(at)
			names := map[string]string{"from": from, "to": to, "third": third}
			s.eventually("it is "+string(c.want)+" at "+c.at, func() bool {
				now, err := s.look(third, c.step)
				return err == nil && now.State == c.want && (c.at == "" || now.Worker == names[c.at])
			})
			link.Mend()
			if c.want == jobs.SessionRunning {
				s.eventually("it has its files", func() bool {
					got, err := s.sh(c.step, "cat /tmp/f")
					return err == nil && got == c.step
				})
			}
			s.eventually("nobody else has it", func() bool {
				n := 0
				for _, name := range names {
					n += max(s.has(c.step, name), 0) // who is there no more has nothing
				}
				return (n == 1) == (c.want == jobs.SessionRunning) && n <= 1
			})
		})
	}
}
