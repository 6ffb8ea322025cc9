package sandboxes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/confine/confinetest"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// play plays the processes of these tests.
func play(c *confinetest.Call) (r confinetest.Result) {
	switch c.Args[0] {
	case "cat":
		_, _ = io.Copy(c.Stdout, c.Stdin)
	case "echo":
		fmt.Fprintln(c.Stdout, strings.Join(c.Args[1:], " "))
	case "flood": // 4 MiB
		for range 256 {
			if _, err := c.Stdout.Write(bytes.Repeat([]byte("x"), 16<<10)); err != nil {
				break
			}
		}
	case "sleep":
		<-c.Context.Done()
	}
	return r
}

func newManager(t *testing.T, o Options) *Manager {
	t.Helper()
	if o.Backend == nil {
		mock := &confinetest.Backend{Handle: play}
		o.Backend = func(*config.Policy) backend.Backend { return mock }
	}
	m := New(o)
	t.Cleanup(m.Close)
	return m
}

func request() Request { return Request{Spec: &backend.Spec{Policy: &config.Policy{}}} }

func create(t *testing.T, m *Manager, r Request) *Sandbox {
	t.Helper()
	s, err := m.Create(t.Context(), "me", r)
	must.Do(t, err)
	return s
}

func start(t *testing.T, s *Sandbox, follow func(*Reader), argv ...string) *Process {
	t.Helper()
	p, err := s.Start(&Exec{Exec: backend.Exec{Argv: argv}}, follow)
	must.Do(t, err)
	return p
}

// all reads to the end.
func all(t *testing.T, r *Reader) (frames []Frame) {
	t.Helper()
	defer r.Close()
	for {
		some, err := r.Next(t.Context())
		if err == io.EOF {
			return frames
		}
		must.Do(t, err)
		frames = append(frames, some...)
	}
}

func TestFramesOfAProcess(t *testing.T) {
	s := create(t, newManager(t, Options{}), request())
	p := start(t, s, nil, "echo", "hello")
	<-p.Done
	r, err := p.Log.Reader(0)
	must.Do(t, err)
	frames := all(t, r)
	var types []string
	for i, f := range frames {
		types = append(types, f.Type)
		if f.Seq != uint64(i+1) || f.Time.IsZero() {
			t.Errorf("%+v", f)
		}
	}
	if !slices.Equal(types, []string{FrameStarted, FrameStdout, FrameExit}) || frames[1].Data != "hello\n" || frames[2].Report.Status != status.OK {
		t.Errorf("%+v", frames)
	}
	if r, err = p.Log.Reader(2); err != nil || len(all(t, r)) != 1 {
		t.Errorf("resumed after 2: %v", err)
	}
	if _, err := p.Log.Reader(4); err == nil {
		t.Error("resumed after what is to come")
	}
	if got, err := s.Process(p.Number); got != p || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// Whoever is told that a process has ended finds it ended.
func TestToldThatItEnded(t *testing.T) {
	s := create(t, newManager(t, Options{}), request())
	for range 200 {
		var follower *Reader
		p := start(t, s, func(r *Reader) { follower = r }, "echo")
		if frames := all(t, follower); frames[len(frames)-1].Type != FrameExit || p.Report() == nil {
			t.Fatalf("%+v, and it runs", frames)
		}
	}
}

func TestAFollowerGetsEverythingAndOthersWhatIsKept(t *testing.T) {
	s := create(t, newManager(t, Options{LogBytes: 64 << 10}), request())
	var follower *Reader
	p := start(t, s, func(r *Reader) { follower = r }, "flood")
	time.Sleep(20 * time.Millisecond) // the process is far ahead, if it doesn't wait
	total := 0
	for _, f := range all(t, follower) {
		total += len(f.Bytes())
	}
	if total != 4<<20 {
		t.Errorf("the follower got %d bytes", total)
	}
	alone := start(t, s, nil, "flood")
	<-alone.Done // nobody reads, and nothing waits
	if _, err := alone.Log.Reader(1); !errors.Is(err, ErrDropped) {
		t.Errorf("what is not kept: %v", err)
	}
	r, err := alone.Log.Reader(0)
	must.Do(t, err)
	kept := all(t, r)
	if last := kept[len(kept)-1]; last.Type != FrameExit || last.Seq != alone.Log.Last() {
		t.Errorf("%+v", last)
	}
	size := 0
	for i := range kept {
		size += kept[i].cost()
	}
	if size > 100<<10 || p.Log.bytes > 100<<10 {
		t.Errorf("%d and %d bytes are kept", size, p.Log.bytes)
	}
}

func TestAReaderThatLeavesHoldsUpNobody(t *testing.T) {
	s := create(t, newManager(t, Options{LogBytes: 64 << 10}), request())
	var follower *Reader
	p := start(t, s, func(r *Reader) { follower = r }, "flood")
	if _, err := follower.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	follower.Close()
	<-p.Done
}

func TestClosingASandboxWaitsForNoReader(t *testing.T) {
	s := create(t, newManager(t, Options{LogBytes: 64 << 10}), request())
	p := start(t, s, func(*Reader) {}, "flood") // a reader that takes nothing
	if end := s.Close(CauseClosed, "enough"); end.Cause != CauseClosed || end.Report == nil {
		t.Errorf("%+v", end)
	}
	<-p.Done
	if _, err := s.Start(&Exec{Exec: backend.Exec{Argv: []string{"echo"}}}, nil); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("started in what has ended: %v", err)
	}
}

func TestCharactersAreNotCutInTwo(t *testing.T) {
	text := []byte("aä€😀z\xff\xfeb\xe2\x82")
	for range 100 {
		l := NewLog(1 << 20)
		w := l.Writer(FrameStdout, nil)
		for rest := text; len(rest) > 0; {
			n := 1 + rand.IntN(len(rest))
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		w.Flush()
		l.Close(Frame{Type: FrameExit})
		r, _ := l.Reader(0)
		var got []byte
		for _, f := range all(t, r) {
			got = append(got, f.Bytes()...)
			if strings.ContainsRune(f.Data, '\uFFFD') {
				t.Errorf("%q", f.Data)
			}
		}
		if !bytes.Equal(got, text) {
			t.Fatalf("%q", got)
		}
	}
}

func TestInputIsWrittenLater(t *testing.T) {
	s := create(t, newManager(t, Options{}), request())
	p, err := s.Start(&Exec{Exec: backend.Exec{Argv: []string{"cat"}}, OpenInput: true}, nil)
	must.Do(t, err)
	for _, part := range []string{"one ", "two"} {
		if n, err := p.WriteInput(t.Context(), strings.NewReader(part)); err != nil || n != int64(len(part)) {
			t.Fatalf("%d, %v", n, err)
		}
	}
	must.Do(t, p.CloseInput())
	<-p.Done
	r, _ := p.Log.Reader(0)
	var got string
	for _, f := range all(t, r) {
		got += f.Data
	}
	if got != "one two" {
		t.Errorf("%q", got)
	}
	if _, err := p.WriteInput(t.Context(), strings.NewReader("x")); !errors.Is(err, ErrNoStdin) {
		t.Errorf("written to what is closed: %v", err)
	}
	full, err := s.Start(&Exec{Exec: backend.Exec{Argv: []string{"sleep"}}, OpenInput: true}, nil)
	must.Do(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := full.WriteInput(ctx, strings.NewReader(strings.Repeat("x", 1<<20))); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody reads: %v", err)
	}
}

func TestOneDeadlineEndsASandboxAndSaysWhichItWas(t *testing.T) {
	m := newManager(t, Options{})
	for name, c := range map[string]struct {
		change func(*Request)
		busy   bool
		cause  string
	}{
		"lifetime":                   {func(r *Request) { r.Lifetime = 30 * time.Millisecond }, true, CauseLifetime},
		"idle":                       {func(r *Request) { r.Idle = 30 * time.Millisecond }, false, CauseIdle},
		"lifetime, before it's idle": {func(r *Request) { r.Lifetime, r.Idle = 30*time.Millisecond, time.Hour }, false, CauseLifetime},
	} {
		r := request()
		c.change(&r)
		s := create(t, m, r)
		if c.busy {
			start(t, s, nil, "sleep")
		}
		<-s.Done()
		if end := s.Ended(); end.Cause != c.cause {
			t.Errorf("%s: %+v", name, end)
		}
		frames, _ := s.Events.Reader(0)
		if f := all(t, frames); f[len(f)-1].Type != FrameEnded || f[len(f)-1].Cause != c.cause {
			t.Errorf("%s: %+v", name, f)
		}
	}
	r := request()
	r.Idle = 30 * time.Millisecond
	s := create(t, m, r)
	p := start(t, s, nil, "sleep")
	done := s.Use()
	time.Sleep(60 * time.Millisecond)
	if s.Ended() != nil {
		t.Error("it was idle while a process ran")
	}
	_ = p.Signal(syscall.SIGKILL)
	<-p.Done
	time.Sleep(60 * time.Millisecond)
	if s.Ended() != nil {
		t.Error("it was idle while somebody asked")
	}
	long := time.Hour
	s.SetDeadlines(nil, &long)
	done()
	time.Sleep(60 * time.Millisecond)
	if s.Ended() != nil {
		t.Error("it was idle before its new time was over")
	}
	short := time.Millisecond
	s.SetDeadlines(&short, nil)
	<-s.Done()
}

func TestASandboxThatEndsByItselfIsTold(t *testing.T) {
	ended := make(chan struct{})
	m := newManager(t, Options{Backend: func(*config.Policy) backend.Backend {
		return mortal{&confinetest.Backend{Handle: play}, ended}
	}})
	s := create(t, m, request())
	close(ended)
	<-s.Done()
	if s.Ended() == nil {
		t.Error("it stands")
	}
}

// mortal's sandboxes are done when told.
type mortal struct {
	*confinetest.Backend
	ended chan struct{}
}

func (m mortal) Build(ctx context.Context, p backend.Plan) (backend.Sandbox, error) {
	box, err := m.Backend.Build(ctx, p)
	return mortalBox{box, m.ended}, err
}

type mortalBox struct {
	backend.Sandbox
	ended chan struct{}
}

func (b mortalBox) Done() <-chan struct{} { return b.ended }

func TestOwnersSeeTheirOwn(t *testing.T) {
	m := newManager(t, Options{Max: 3, MaxPerOwner: 2})
	r := request()
	r.Name = "work"
	mine := create(t, m, r)
	if _, err := m.Create(t.Context(), "me", r); err == nil {
		t.Error("a name was given twice")
	}
	other, err := m.Create(t.Context(), "other", r)
	must.Do(t, err)
	for _, id := range []string{other.ID, "", "nothing"} {
		if _, err := m.Get("me", id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{mine.ID, "work"} {
		if s, err := m.Get("me", id); s != mine || err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	second := create(t, m, request())
	var quota *QuotaError
	if _, err := m.Create(t.Context(), "me", request()); !errors.As(err, &quota) {
		t.Errorf("a third of one owner, a fourth of all: %v", err)
	}
	if _, err := m.Create(t.Context(), "third", request()); !errors.As(err, &quota) || quota.Max != 3 {
		t.Errorf("a fourth of all: %v", err)
	}
	second.Close(CauseClosed, "")
	if got := m.List("me"); !slices.Equal(got, []*Sandbox{mine, second}) {
		t.Errorf("%v", got)
	}
	create(t, m, request()) // there is room again, and the tombstone is there
	if s, err := m.Get("me", second.ID); err != nil || s.Ended() == nil {
		t.Errorf("the tombstone: %v", err)
	}
}

func TestANameIsTakenWhileItsSandboxIsBuilt(t *testing.T) {
	mock := &confinetest.Backend{Handle: play, BuildDelay: 20 * time.Millisecond}
	m := newManager(t, Options{Backend: func(*config.Policy) backend.Backend { return mock }})
	r := request()
	r.Name = "work"
	made := make(chan error)
	for range 8 {
		go func() {
			_, err := m.Create(t.Context(), "me", r)
			made <- err
		}()
	}
	n := 0
	for range 8 {
		if <-made == nil {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d sandboxes have one name", n)
	}
}

// Who ends many sandboxes pushes out his own tombstones, and not a neighbour's.
func TestTombstonesAreBounded(t *testing.T) {
	m := newManager(t, Options{})
	neighbours, err := m.Create(t.Context(), "neighbour", request())
	must.Do(t, err)
	neighbours.Close(CauseClosed, "")
	for range 20 {
		var some sync.WaitGroup
		for range maxTombstones / 10 {
			some.Go(func() {
				if s, err := m.Create(t.Context(), "me", request()); err != nil {
					t.Error(err)
				} else {
					s.Close(CauseClosed, "")
				}
			})
		}
		some.Wait()
	}
	if n := len(m.List("me")) + len(m.List("neighbour")); n > maxTombstones {
		t.Errorf("%d tombstones", n)
	}
	if s, err := m.Get("neighbour", neighbours.ID); err != nil || s.Ended() == nil {
		t.Errorf("the neighbour's tombstone: %v", err)
	}
}

func TestManagerClosesEverything(t *testing.T) {
	m := newManager(t, Options{})
	s := create(t, m, request())
	p := start(t, s, nil, "sleep")
	m.Close()
	<-p.Done
	if end := s.Ended(); end == nil || end.Cause != CauseClosed {
		t.Errorf("%+v", end)
	}
	if _, err := m.Create(t.Context(), "me", request()); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("created in what is closed: %v", err)
	}
}

func TestACancelledCreationLeavesNothing(t *testing.T) {
	mock := &confinetest.Backend{BuildDelay: time.Hour}
	m := newManager(t, Options{Backend: func(*config.Policy) backend.Backend { return mock }})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := m.Create(ctx, "me", request()); err == nil {
		t.Error("it was built")
	}
	if n := len(m.List("me")); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// Who runs much, and writes much, doesn't have the manager keep all of it. How each ended is known, and nobody loses what a neighbour wrote.
func TestWhatTombstonesKeepIsBounded(t *testing.T) {
	const each = 1 << 20
	m := newManager(t, Options{LogBytes: each})
	r := request()
	neighbour, err := m.Create(t.Context(), "neighbour", r)
	must.Do(t, err)
	<-start(t, neighbour, nil, "flood").Done
	neighbour.Close(CauseClosed, "")
	var mine []*Sandbox
	for range 2 * tombstonesBytes / each {
		s := create(t, m, r)
		<-start(t, s, nil, "flood").Done
		if s.Close(CauseClosed, "bye").Report == nil {
			t.Fatal("there is no report for whoever closes it")
		}
		mine = append(mine, s)
	}
	kept := 0
	for _, s := range mine {
		kept += s.roster.size() + s.Events.size()
		if s.Ended().Reason != "bye" {
			t.Errorf("%+v", s.Ended())
		}
	}
	if kept > tombstonesBytes+2*each || kept < tombstonesBytes/2 {
		t.Errorf("%d bytes are kept", kept)
	}
	if _, err := mine[0].Process(1); !errors.Is(err, ErrNoProcess) {
		t.Errorf("the oldest: %v", err)
	}
	for _, s := range []*Sandbox{neighbour, mine[len(mine)-1]} {
		if p, err := s.Process(1); err != nil || p.Log.size() < each/2 {
			t.Errorf("what was written: %v", err)
		}
	}
}

// A report that is long counts for what is kept of a sandbox's events, and drops nothing that its process wrote.
func TestLongReportsCount(t *testing.T) {
	const words = 10 << 10
	report := &status.Report{Violations: []status.Violation{{What: strings.Repeat("x", words)}}, Network: &status.Traffic{Attempts: []status.Attempt{{Name: strings.Repeat("x", words)}}}}
	events, own := NewLog(10*words), NewLog(words)
	for range 100 {
		events.Append(Frame{Type: FrameExit, Report: report})
	}
	if n := len(events.frames); n > 5 {
		t.Errorf("%d reports are kept", n)
	}
	own.Append(Frame{Type: FrameStdout, Data: "hello"})
	own.Close(Frame{Type: FrameExit, Report: report})
	if len(own.frames) != 2 {
		t.Errorf("kept is %+v", own.frames)
	}
}

// A sandbox that is there and one that is being built are two, and each counts once.
func TestASandboxIsNotCountedTwiceWhileItIsTold(t *testing.T) {
	var m *Manager
	inner := make(chan error, 1)
	first := true
	m = newManager(t, Options{MaxPerOwner: 2, Opened: func(*Sandbox) error {
		if first {
			first = false
			_, err := m.Create(t.Context(), "me", request())
			inner <- err
		}
		return nil
	}})
	create(t, m, request())
	if err := <-inner; err != nil {
		t.Errorf("the second: %v", err)
	}
	var quota *QuotaError
	if _, err := m.Create(t.Context(), "me", request()); !errors.As(err, &quota) {
		t.Errorf("a third: %v", err)
	}
}

// One owner asks for hundreds, and another for one, for which that waits no longer than for one of the others to end.
func TestOwnersTakeTurnsWhereThereIsNoRoom(t *testing.T) {
	m := newManager(t, Options{Max: 2, Wait: time.Minute})
	held := []*Sandbox{create(t, m, request()), create(t, m, request())}
	var group sync.WaitGroup
	made := make(chan *Sandbox, 300)
	for range 200 {
		group.Go(func() {
			if s, err := m.Create(t.Context(), "greedy", request()); err == nil {
				made <- s
			}
		})
	}
	for m.places.Waiting() < 200 {
		time.Sleep(time.Millisecond)
	}
	group.Go(func() {
		if s, err := m.Create(t.Context(), "other", request()); err == nil {
			made <- s
		} else {
			t.Error(err)
		}
	})
	for m.places.Waiting() < 201 {
		time.Sleep(time.Millisecond)
	}
	held[0].Close(CauseClosed, "")
	held[1].Close(CauseClosed, "")
	for i := range 201 {
		s := <-made
		m.mu.Lock()
		n := len(m.all) - len(m.tombstones)
		m.mu.Unlock()
		if n > 2 {
			t.Errorf("%d stand", n)
		}
		if s.Owner == "other" && i > 100 {
			t.Errorf("it had to wait for %d others", i)
		}
		s.Close(CauseClosed, "")
	}
	group.Wait()
}

func TestWhoWaitsForRoomIsRefusedOrLeaves(t *testing.T) {
	m := newManager(t, Options{Max: 1, Wait: 10 * time.Millisecond})
	create(t, m, request())
	var quota *QuotaError
	if _, err := m.Create(t.Context(), "me", request()); !errors.As(err, &quota) || quota.Waited == 0 {
		t.Error(err)
	}
	m.opts.Wait = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := m.Create(ctx, "me", request()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := m.Create(context.Background(), "me", request())
		failed <- err
	}()
	for m.places.Waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	if len(m.building["me"]) != 1 {
		t.Errorf("%d are being built", len(m.building["me"]))
	}
	m.Close()
	if err := <-failed; !errors.Is(err, backend.ErrClosed) {
		t.Error(err)
	}
}

// Processes are counted as long as they run, whatever sandbox they are in, and no owner has all of them.
func TestProcessesThatRunAreBounded(t *testing.T) {
	m := newManager(t, Options{MaxRunning: 4})
	mine, second := create(t, m, request()), create(t, m, request())
	sleep := &Exec{Exec: backend.Exec{Argv: []string{"sleep"}}}
	for _, s := range []*Sandbox{mine, second, mine} {
		start(t, s, nil, "sleep")
	}
	var quota *QuotaError
	if _, err := second.Start(sleep, nil); !errors.As(err, &quota) || quota.Max != 3 {
		t.Errorf("a fourth of one owner: %v", err)
	}
	s, err := m.Create(t.Context(), "other", request())
	must.Do(t, err)
	start(t, s, nil, "sleep")
	if _, err := s.Start(sleep, nil); !errors.As(err, &quota) || quota.Max != 4 {
		t.Errorf("a fifth of all: %v", err)
	}
	mine.Close(CauseClosed, "")
	<-start(t, second, nil, "echo").Done
	start(t, second, nil, "sleep")
	second.Close(CauseClosed, "")
	s.Close(CauseClosed, "")
	if len(m.running) != 0 {
		t.Errorf("%v run", m.running)
	}
}
