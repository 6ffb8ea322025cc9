package confinetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/status"
)

// process is a handler at work.
type process struct {
	box    *sandbox
	exec   *backend.Exec
	began  time.Time
	cancel context.CancelCauseFunc
	done   chan struct{}
	report *status.Report
	live
}

// signalled is a signal as the cause of an end.
type signalled syscall.Signal

func (s signalled) Error() string { return syscall.Signal(s).String() }

// errTime and errCPU are the limits of time as one.
var (
	errTime = errors.New("wall-clock limit reached")
	errCPU  = errors.New("CPU time limit reached")
)

func newProcess(ctx context.Context, s *sandbox, e *backend.Exec) *process {
	p := &process{box: s, exec: e, began: time.Now(), done: make(chan struct{})}
	inner, cancel := context.WithCancelCause(ctx)
	p.cancel = cancel
	context.AfterFunc(s.ctx, func() { cancel(signalled(syscall.SIGKILL)) })
	limit := s.plan.spec.Policy.TimeLimit
	if d := e.Limits.Time; d > 0 && (limit == 0 || d < limit) {
		limit = d
	}
	var timer *time.Timer
	if limit > 0 {
		timer = time.AfterFunc(limit, func() { cancel(errTime) })
	}
	most := s.plan.spec.Policy.OutputLimit
	if n := e.Limits.Output; n > 0 && (most == 0 || n < most) {
		most = n
	}
	mu := &sync.Mutex{} // one writer may be both
	out, errs := &stream{to: e.Stdout, most: most, mu: mu}, &stream{to: e.Stderr, most: most, mu: mu}
	result := make(chan Result, 1)
	go func() {
		handle := s.backend.Handle
		if handle == nil {
			handle = func(*Call) Result { return Result{} }
		}
		c := &Call{Context: inner, Args: e.Argv, Env: s.environ(e.Env), Dir: e.Dir, Stdin: e.Stdin, Stdout: out, Stderr: errs, TTY: e.TTY, Files: s.files, Use: p.use, Tell: p.tell}
		if c.Stdin == nil {
			c.Stdin = strings.NewReader("")
		}
		result <- handle(c)
	}()
	go func() {
		defer close(p.done)
		defer cancel(nil)
		if timer != nil {
			defer timer.Stop()
		}
		select {
		case r := <-result:
			p.report = p.ended(r)
		case <-inner.Done():
		}
		if errors.Is(context.Cause(inner), errTime) {
			p.tell(backend.Event{Limit: status.WallTime})
		}
		if errors.Is(context.Cause(inner), errCPU) {
			p.tell(backend.Event{Limit: status.CPUTime})
		}
		if inner.Err() != nil { // a handler that heard of it may have been faster
			p.report = p.stopped(context.Cause(inner))
		}
		out.stop()
		errs.stop()
		p.report.Truncated.Stdout, p.report.Bytes.Stdout = out.cut, out.n
		p.report.Violations = p.denied()
		p.report.Truncated.Stderr, p.report.Bytes.Stderr = errs.cut, errs.n
		if out.cut || errs.cut {
			p.report.LimitsHit = append(p.report.LimitsHit, string(status.Output))
		}
	}()
	return p
}

// environ is what the policy passes and sets, and what the process's own start does.
func (s *sandbox) environ(own []string) (env []string) {
	of := &s.plan.spec.Policy.Env
	for _, v := range s.plan.spec.Environ {
		name, _, _ := strings.Cut(v, "=")
		if of.KeepAll || slices.ContainsFunc(of.Pass, func(p string) bool {
			prefix, many := strings.CutSuffix(p, "*")
			return p == name || many && strings.HasPrefix(name, prefix)
		}) {
			env = append(env, v)
		}
	}
	for k, v := range of.Set {
		env = append(env, k+"="+v)
	}
	return append(env, own...)
}

func (p *process) blank() *status.Report {
	p.box.mu.Lock()
	policy := p.box.policy
	p.box.mu.Unlock()
	r := &status.Report{Backend: Name, Profile: policy.Profile, PolicyDigest: policy.Digest(), Cmd: p.exec.Argv,
		DurationMS: time.Since(p.began).Milliseconds(), Enforced: status.Ledger{}}
	for c, e := range p.box.plan.ledger {
		e.Applied = true
		r.Enforced[c] = e
	}
	r.Normalize()
	return r
}

// ended is the report of what ended by itself.
func (p *process) ended(result Result) *status.Report {
	r := p.blank()
	r.Status, r.Reason = result.Status, result.Reason
	switch {
	case r.Status == "" && result.Code == 0:
		r.Status = status.OK
	case r.Status == "":
		r.Status = status.Failed
	}
	if r.Reason == "" {
		r.Reason = fmt.Sprintf("exited %d", result.Code)
	}
	if r.Status == status.OK || r.Status == status.Failed {
		r.ExitCode = &result.Code
	}
	r.RC = r.Status.RC(status.Normalized, result.Code, 0)
	return r
}

// stopped is the report of what was ended.
func (p *process) stopped(cause error) *status.Report {
	r := p.blank()
	var by signalled
	switch {
	case errors.Is(cause, errTime):
		r.Status, r.Cause, r.LimitsHit = status.Timeout, status.CauseWall, []string{string(status.WallTime)}
	case errors.Is(cause, errCPU):
		r.Status, r.Cause, r.LimitsHit = status.CPULimit, status.CauseCPUTree, []string{string(status.CPUTime)}
	case errors.As(cause, &by) && syscall.Signal(by) != syscall.SIGKILL:
		r.Status, r.Cause = status.KilledSignal, status.CauseCaller
		if syscall.Signal(by) == syscall.SIGTERM {
			r.Status = status.KilledTerm
		}
	default:
		by = signalled(syscall.SIGKILL)
		r.Status, r.Cause = status.KilledKill, status.CauseContext
	}
	r.Reason = cause.Error()
	if by != 0 {
		r.Signal = signalName(syscall.Signal(by))
	}
	r.RC = r.Status.RC(status.Normalized, 0, int(by))
	return r
}

func signalName(n syscall.Signal) string {
	names := map[syscall.Signal]string{syscall.SIGKILL: "SIGKILL", syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP"}
	if name, ok := names[n]; ok {
		return name
	}
	return fmt.Sprintf("signal %d", int(n))
}

func (p *process) Signal(sig os.Signal) error {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return errors.ErrUnsupported
	}
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
	}
	p.cancel(signalled(n))
	return nil
}

func (p *process) Resize(size backend.WinSize) error {
	if p.exec.TTY == nil {
		return errors.ErrUnsupported
	}
	*p.exec.TTY = size
	return nil
}

func (p *process) Wait() *status.Report {
	<-p.done
	p.box.mu.Lock()
	if p.box.running[p] {
		p.box.used += p.usage().CPU
	}
	delete(p.box.running, p)
	p.box.mu.Unlock()
	return p.report
}

// stream passes on so much as a limit allows, until its process has ended.
type stream struct {
	to   io.Writer
	most int64 // 0: no limit
	mu   *sync.Mutex
	n    int64
	cut  bool
	over bool
}

func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return 0, os.ErrClosed
	}
	whole := len(b)
	if room := s.most - s.n; s.most > 0 && int64(whole) > room {
		b = b[:max(room, 0)]
	}
	s.n += int64(whole)
	if s.to == nil || s.cut {
		return whole, nil
	}
	if len(b) < whole {
		s.cut = true
		b = append(slices.Clone(b), "\n[TRUNCATED]\n"...)
	}
	if _, err := s.to.Write(b); err != nil {
		return 0, err
	}
	return whole, nil
}

func (s *stream) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}
