package darwin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/internal/hostfiles"
	"github.com/confine-run/confine/backend/internal/task"
	"github.com/confine-run/confine/internal/darwin"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/proxy"
)

// placePrefix is what the directories of runs begin with.
const placePrefix = "confine-"

// lookAtLeast is what passes between two looks, however much happens.
const lookAtLeast = 2 * time.Millisecond

// sandbox is what a Box is made of here.
type sandbox struct {
	plan  *Plan
	mark  string
	place string // the run's own directory
	start string // where processes start
	env   []string

	proxy  *proxy.Proxy // nil: there is no gateway
	keeper *exec.Cmd
	alive  io.WriteCloser // the keeper waits for its end
	box    *task.Box

	mu      sync.Mutex
	targets []*target
	tree    tree

	grown    struct{ bytes, files int64 } // what lay in writable trees when it was built
	scratch  atomic.Int64
	watching sync.WaitGroup
	killed   chan struct{}
	killOnce sync.Once
}

// build builds a sandbox. What it has made it removes again where it fails.
func build(ctx context.Context, p *Plan) (_ *task.Box, err error) {
	s := &sandbox{plan: p, mark: "run.confine." + rand.Text(), killed: make(chan struct{})}
	defer func() {
		if err != nil {
			_, undone := s.Close()
			err = errors.Join(err, undone)
		}
	}()
	dir := filepath.Join(p.have.Temp, placePrefix+rand.Text())
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, task.Setup("place", "mkdir", err)
	}
	s.place = dir
	for _, name := range []string{"home", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return nil, task.Setup("place", "mkdir", err)
		}
	}
	port := uint16(0)
	if p.Gateway {
		if s.proxy, err = proxy.Open(&p.Reach, s.attempt); err != nil {
			return nil, task.Setup("network", "listen", err)
		}
		port = s.proxy.Port
	}
	p.input.Mark = s.mark
	p.compile(dir, port)
	s.env = p.environ(dir, port)
	if s.start = p.Start; s.start == "" {
		s.start = filepath.Join(dir, "home")
	}
	if err := s.startKeeper(); err != nil {
		return nil, task.Setup("keeper", "start", err)
	}
	s.grown.bytes, s.grown.files = hostfiles.Measure(p.Trees)
	s.mu.Lock()
	s.box = task.New(ctx, Name, p.Spec, status.Ledger(p.Lines), s)
	s.mu.Unlock()
	s.watching.Go(s.watch)
	return s.box, nil
}

// startKeeper starts the process that ends the sandbox if this one is killed.
func (s *sandbox) startKeeper() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	c := exec.Command(s.plan.have.Self, keeperWord, s.mark, s.place)
	c.Dir, c.Env, c.Stdin, c.SysProcAttr = "/", []string{}, r, &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		_ = w.Close()
		return err
	}
	s.keeper, s.alive = c, w
	return nil
}

// attempt tells of what the gateway refused.
func (s *sandbox) attempt(a status.Attempt) {
	s.mu.Lock()
	box := s.box
	s.mu.Unlock()
	if a.Verdict != status.AttemptBlocked || box == nil { // somebody else has found the port before anybody was started
		return
	}
	if proxy.Exhausted(&a) {
		box.Reached(status.Network)
	}
	box.Denied(a.Violation())
}

func (s *sandbox) enter(t *target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.targets = append(s.targets, t)
}

// leave is told of a process that has ended what the kernel says that it used.
func (s *sandbox) leave(t *target, cpu time.Duration, memory int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	more := t.tree.ended(cpu, memory)
	s.tree.ended(s.tree.now.CPU+more, memory)
	s.targets = slices.DeleteFunc(s.targets, func(o *target) bool { return o == t })
}

// watch looks at everybody, whenever somebody forks or ends, and every now and then.
func (s *sandbox) watch() {
	kq, err := unix.Kqueue()
	if err == nil {
		defer unix.Close(kq)
	}
	known := map[int]bool{}
	next := time.Now()
	for {
		select {
		case <-s.killed:
			return
		default:
		}
		pids := s.look()
		time.Sleep(lookAtLeast) // however many fork
		if kq >= 0 && err == nil {
			await(kq, pids, known)
		} else {
			time.Sleep(task.LookEvery)
		}
		if began := time.Now(); !began.Before(next) {
			s.lookAtDisk()
			next = time.Now().Add(max(task.LookAtDiskEvery, 4*time.Since(began)))
		}
	}
}

// await waits for a fork or an end of those who are known, and for no longer than the time between two looks.
func await(kq int, pids []int, known map[int]bool) {
	var changes []unix.Kevent_t
	here := map[int]bool{}
	for _, pid := range pids {
		if here[pid] = true; !known[pid] {
			changes = append(changes, unix.Kevent_t{Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_CLEAR | unix.EV_RECEIPT, Fflags: unix.NOTE_FORK | unix.NOTE_EXIT})
		}
	}
	clear(known)
	for pid := range here {
		known[pid] = true
	}
	events := make([]unix.Kevent_t, max(1, len(changes)))
	if len(changes) > 0 {
		_, _ = unix.Kevent(kq, changes, events, &unix.Timespec{}) // of who is gone already there is an error in its receipt
	}
	wait := unix.NsecToTimespec(int64(task.LookEvery))
	_, _ = unix.Kevent(kq, nil, events[:1], &wait)
}

// sample sums what everybody uses.
func (s *sandbox) sample() (now backend.Usage, all []sample, err error) {
	pids, err := members(s.mark)
	if err != nil {
		return now, nil, err
	}
	for _, pid := range pids {
		if u, err := darwin.UsageOf(pid); err == nil {
			all = append(all, sample{pid, u.Start, u.CPU, u.Memory, u.Threads})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree.add(all)
	for _, t := range s.targets {
		of := all
		if len(s.targets) > 1 {
			of = slices.DeleteFunc(slices.Clone(all), func(one sample) bool { return !member(one.pid, t.own) })
		}
		t.tree.add(of)
	}
	return s.tree.now, all, nil
}

// look ends all where they use too much, and the newest where they are too many. It gives those whom it saw.
func (s *sandbox) look() (pids []int) {
	now, all, err := s.sample()
	if err != nil {
		return nil // the next one may see them
	}
	for _, one := range all {
		pids = append(pids, one.pid)
	}
	switch l := &s.plan.Limits; {
	case l.Memory > 0 && now.Memory > l.Memory:
		s.box.Reached(status.Memory)
		s.box.End(status.CauseMemWatch, fmt.Sprintf("processes held %d bytes", now.Memory))
	case l.Tasks > 0 && now.Tasks > l.Tasks:
		s.trim(trim(all, l.Tasks), now.Tasks)
	case l.CPU > 0 && now.CPU >= l.CPU:
		s.box.End(status.CauseCPUTree, "CPU time limit of "+l.CPU.String()+" reached")
	}
	return pids
}

// trim kills those who are too many. Where the first process of a command is one of them, all end.
func (s *sandbox) trim(pids []int, tasks int64) {
	s.mu.Lock()
	first := slices.ContainsFunc(s.targets, func(t *target) bool { return slices.Contains(pids, t.cmd.Process.Pid) })
	s.mu.Unlock()
	s.box.Reached(status.Tasks)
	if first {
		s.box.End(status.CauseTasks, fmt.Sprintf("limit of %d tasks reached: %d", s.plan.Limits.Tasks, tasks))
		return
	}
	for _, pid := range pids {
		if member(pid, s.mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func (s *sandbox) lookAtDisk() {
	bytes, files := hostfiles.Measure(append([]string{s.place}, s.plan.Trees...))
	bytes, files = bytes-s.grown.bytes, files-s.grown.files
	s.scratch.Store(max(0, bytes))
	s.box.LookAtDisk(bytes, files, s.plan.Limits.Disk, s.plan.Limits.Files)
}

// Files are those of the run's directory, and of trees that it may write to or start in.
func (s *sandbox) Files() backend.Files {
	f := hostfiles.Files{Closed: s.box.Done(), Places: []hostfiles.Place{{Dir: s.place, Write: true}}}
	if s.plan.Start != "" {
		f.Places = append(f.Places, hostfiles.Place{Dir: s.start})
	}
	for _, t := range s.plan.Trees {
		f.Places = append(f.Places, hostfiles.Place{Dir: t, Write: true})
	}
	return f
}

func (s *sandbox) Usage() (backend.Usage, error) {
	u, _, err := s.sample()
	u.Scratch = s.scratch.Load()
	return u, err
}

func (s *sandbox) Used() status.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tree.used()
}

func (s *sandbox) Traffic() *status.Traffic {
	if s.proxy == nil {
		return nil
	}
	return s.proxy.Traffic()
}

func (s *sandbox) Refused() (times int64) {
	if s.proxy != nil {
		_, times = s.proxy.Refused()
	}
	return times
}

func (s *sandbox) Kill() {
	s.killOnce.Do(func() { close(s.killed) })
	s.mu.Lock()
	targets := slices.Clone(s.targets)
	s.mu.Unlock()
	for _, t := range targets {
		t.Kill()
	}
}

// Changes are none: there are no overlays.
func (s *sandbox) Changes() *status.Changes { return nil }

func (s *sandbox) Close() (violations []status.Violation, err error) {
	s.Kill()
	s.watching.Wait()
	err = killAll(s.mark)
	if s.proxy != nil {
		s.proxy.Close()
		violations, _ = s.proxy.Refused()
	}
	violations = append(violations, sweep(s.plan.Trees, &s.plan.guarded)...)
	if s.place != "" {
		err = errors.Join(err, os.RemoveAll(s.place))
	}
	if s.keeper != nil {
		_ = s.alive.Close()
		_ = s.keeper.Wait()
	}
	return violations, err
}

// Backend builds sandboxes.
type Backend struct{}

func (Backend) Name() string { return Name }

func (Backend) Plan(_ context.Context, s *backend.Spec) (backend.Plan, error) {
	p, err := planHere(s)
	if p == nil {
		return nil, err
	}
	return p, err
}

// planHere plans for this host.
func planHere(s *backend.Spec) (*Plan, error) {
	have, err := here()
	if err != nil {
		return nil, err
	}
	return newPlan(s, have)
}

// Build plans anew, since a plan names files as they were, and builds.
func (Backend) Build(ctx context.Context, planned backend.Plan) (backend.Sandbox, error) {
	p, err := planHere(planned.(*Plan).Spec)
	if err != nil {
		return nil, err
	}
	box, err := build(ctx, p)
	return p.Built(box, err)
}

var (
	_ task.System = (*sandbox)(nil)
	_ task.Seer   = (*sandbox)(nil)
	_ task.Target = (*target)(nil)
)
