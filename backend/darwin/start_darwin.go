package darwin

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/internal/task"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/outcome"
)

// stagePatience is how long it may take until a command is executed.
const stagePatience = 30 * time.Second

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

func (s *sandbox) Start(x *task.Start) (_ task.Target, err error) {
	e := x.Exec
	dir := s.start
	if e.Dir != "" {
		dir = e.Dir
	}
	env := append(append(slices.Clone(s.env), "PWD="+dir), e.Env...) // package os/exec keeps the last of a name
	path, err := s.plan.find(e.Argv[0], dir, env)
	if err != nil {
		return nil, err
	}
	t := &target{box: s, own: "run.confine." + rand.Text()}
	tty := ""
	if e.TTY != nil {
		if t.term, err = openTerminal(*e.TTY, x.Keys, x.Screen); err != nil {
			return nil, task.Setup("start", "openpty", err)
		}
		tty = t.term.name
		defer func() {
			_ = t.term.slave.Close() // the process has its own
			if err != nil {
				t.term.close()
			}
		}()
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, task.Setup("start", "pipe", err)
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
	if err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok && p.Op == "chdir" {
			return nil, &outcome.ExecError{Path: dir, Errno: errnoOf(err), Step: handoff.StepChdir}
		}
		return nil, task.Setup("start", sandboxExec, err)
	}
	s.enter(t)
	if err := t.confirmed(r, path); err != nil {
		t.Kill()
		_ = t.Wait()
		return nil, err
	}
	return t, nil
}

// confirmed waits until the stage has said that all holds, and has become the command.
func (t *target) confirmed(r *os.File, path string) error {
	_ = r.SetReadDeadline(time.Now().Add(stagePatience))
	said, err := io.ReadAll(r)
	if err != nil {
		return task.Setup("start", "read", err)
	}
	return stageSaid(said, path)
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

func (t *target) Kill() {
	_ = t.Signal(syscall.SIGKILL)
	if pids, err := members(t.own); err == nil {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

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

func (t *target) Resize(size backend.WinSize) error {
	if t.term == nil {
		return os.ErrProcessDone
	}
	return t.term.resize(size)
}

func (t *target) Usage() (backend.Usage, error) {
	t.box.mu.Lock()
	defer t.box.mu.Unlock()
	u := t.tree.now
	u.Scratch = -1
	return u, nil
}

func (t *target) Used() status.Usage {
	t.box.mu.Lock()
	defer t.box.mu.Unlock()
	return t.tree.used()
}
