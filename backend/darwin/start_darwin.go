package darwin

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/internal/task"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/seatbelt"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/outcome"
)

const sandboxExec = "/usr/bin/sandbox-exec" // by this name alone, which the system signs

// target is a process that was started.
type target struct {
	box  *sandbox
	own  string // its mark
	cmd  *exec.Cmd
	term *terminal // nil: none

	mu   sync.Mutex
	tree tree // under the box's lock
	over bool // it was waited for, and its number may be another's
}

// Start starts a process.
func (s *sandbox) Start(x *task.Start) (_ task.Target, err error) {
	e := x.Exec
	env := append(slices.Clone(s.env), e.Env...) // package os/exec keeps the last of a name
	dir := s.start
	if e.Dir != "" {
		dir = e.Dir
	}
	path, err := s.find(e.Argv[0], dir, env)
	if err != nil {
		return nil, err
	}
	t := &target{box: s, own: "run.confine." + rand.Text()}
	tty := ""
	if e.TTY != nil {
		if t.term, err = openTerminal(*e.TTY, x.Keys, x.Screen); err != nil {
			return nil, setup("start", "openpty", err)
		}
		tty = t.term.name
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, setup("start", "pipe", err)
	}
	defer r.Close()
	text, params := s.plan.profile.Text(tty, t.own)
	words := []string{sandboxExec, "-p", text}
	for _, p := range params {
		words = append(words, "-D"+p.Name+"="+p.Value)
	}
	words = append(words, "--", s.plan.have.Self, stageWord, s.plan.Limits.rlimits(), s.mark, path)
	t.cmd = &exec.Cmd{
		Path: sandboxExec, Args: append(words, e.Argv...), Env: env, Dir: dir, ExtraFiles: []*os.File{w},
		Stdin: x.Streams[0], Stdout: x.Streams[1], Stderr: x.Streams[2], SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if t.term != nil {
		t.cmd.Stdin, t.cmd.Stdout, t.cmd.Stderr = t.term.slave, t.term.slave, t.term.slave
		t.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	}
	err = t.cmd.Start()
	_ = w.Close()
	if t.term != nil {
		_ = t.term.slave.Close()
	}
	if err != nil {
		t.term.close()
		if p, ok := errors.AsType[*fs.PathError](err); ok && p.Op == "chdir" {
			return nil, &outcome.ExecError{Path: dir, Errno: errnoOf(err), Step: handoff.StepChdir}
		}
		return nil, setup("start", sandboxExec, err)
	}
	s.enter(t)
	if err := t.confirmed(r, path); err != nil {
		t.Kill()
		_ = t.Wait()
		t.term.close()
		return nil, err
	}
	return t, nil
}

// confirmed waits until the stage has said that all holds, and has become the command.
func (t *target) confirmed(r io.Reader, path string) error {
	said, err := io.ReadAll(r)
	if err != nil {
		return setup("start", "read", err)
	}
	errno := syscall.Errno(0)
	if len(said) >= 5 {
		errno = syscall.Errno(binary.LittleEndian.Uint32(said[len(said)-4:]))
	}
	switch {
	case len(said) == 0: // what it says is on standard error
		return &outcome.SetupError{Step: "seatbelt", Op: sandboxExec + " has not executed what it was to", Whole: true, Hint: "what it printed says why; confine doctor tries it"}
	case said[0] == stageOutside:
		return &outcome.SetupError{Step: "seatbelt", Op: "sandbox_check: the process is in no sandbox that is known as the run's", Whole: true}
	case said[0] == stageLimits:
		return setup("limits", "setrlimit", errno)
	case len(said) > 1 && said[1] == stageFailed:
		return &outcome.ExecError{Path: path, Errno: errno, Step: handoff.StepExecve}
	}
	return nil
}

// rlimits are RESOURCE=LIMIT, for the stage.
func (l *limits) rlimits() string {
	words := []string{fmt.Sprintf("%d=0", unix.RLIMIT_CORE)}
	for _, one := range []struct {
		resource int
		limit    int64
	}{{unix.RLIMIT_NOFILE, l.Descriptors}, {unix.RLIMIT_FSIZE, l.FileSize}, {unix.RLIMIT_CPU, int64(math.Ceil(l.CPU.Seconds())) + 1}} {
		if one.limit > 0 && (one.resource != unix.RLIMIT_CPU || l.CPU > 0) {
			words = append(words, fmt.Sprintf("%d=%d", one.resource, one.limit))
		}
	}
	return strings.Join(words, ",")
}

func setup(step, op string, err error) *outcome.SetupError {
	e := &outcome.SetupError{Step: step, Op: op}
	if !errors.As(err, &e.Errno) && err != nil {
		e.Op, e.Whole = op+": "+err.Error(), true
	}
	return e
}

// find finds a program that the sandbox lets be executed, by its name or its path, as seen from where it starts.
func (s *sandbox) find(name, dir string, env []string) (string, error) {
	missing := &outcome.ExecError{Path: name, Errno: syscall.ENOENT, Step: handoff.StepLookup}
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return "", missing
	}
	try := func(at string) error {
		f, err := s.plan.have.Files.Resolve(at)
		switch {
		case err != nil || !s.plan.profile.Allows(f.Path, seatbelt.Exec):
			return syscall.ENOENT
		case !f.Mode.IsRegular():
			return syscall.EACCES
		}
		return unix.Access(at, unix.X_OK)
	}
	if strings.Contains(name, "/") {
		at := name
		if !filepath.IsAbs(at) {
			at = dir + "/" + name
		}
		switch err := try(at); err {
		case nil:
			return at, nil
		case syscall.ENOENT:
			return "", missing
		default:
			return "", &outcome.ExecError{Path: name, Errno: errnoOf(err), Step: handoff.StepExecve}
		}
	}
	search := ""
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			search = value
		}
	}
	for _, d := range filepath.SplitList(search) {
		if filepath.IsAbs(d) && try(filepath.Join(d, name)) == nil {
			return filepath.Join(d, name), nil
		}
	}
	return "", missing
}

// Signal sends one to its process group.
func (t *target) Signal(n syscall.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return os.ErrProcessDone
	}
	return syscall.Kill(-t.cmd.Process.Pid, n)
}

// Kill ends it and those that it started.
func (t *target) Kill() {
	_ = t.Signal(syscall.SIGKILL)
	if pids, err := members(t.own); err == nil {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Wait waits until it has ended.
func (t *target) Wait() outcome.Ended {
	state, err := t.cmd.Process.Wait()
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	if err != nil {
		t.box.leave(t, 0, 0)
		return nil
	}
	cpu, memory := state.UserTime()+state.SystemTime(), int64(0)
	if u, ok := state.SysUsage().(*syscall.Rusage); ok {
		memory = u.Maxrss // bytes, here
	}
	t.box.leave(t, cpu, memory)
	ended, _ := state.Sys().(syscall.WaitStatus)
	return ended
}

// Hang closes its terminal, when all was shown that was written before.
func (t *target) Hang() { t.term.close() }

// Resize changes the size of its terminal.
func (t *target) Resize(size backend.WinSize) error {
	if t.term == nil {
		return os.ErrProcessDone
	}
	return t.term.resize(size)
}

// Usage is what it and those that it started use.
func (t *target) Usage() (backend.Usage, error) {
	t.box.mu.Lock()
	defer t.box.mu.Unlock()
	u := t.tree.now
	u.Scratch = -1
	return u, nil
}

// Used is the same in the words of a report.
func (t *target) Used() status.Usage {
	t.box.mu.Lock()
	defer t.box.mu.Unlock()
	return t.tree.used()
}
