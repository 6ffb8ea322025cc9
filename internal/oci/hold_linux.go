package oci

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// holdWord is how this program is told to be the supervisor of a container.
const holdWord = "__hold"

// held is what a supervisor is started with.
type held struct {
	ID, Bundle string
	State      string // the path of the container's state directory
	Log        log
	TTY        bool // descriptor heldTTY is a terminal
	Leads      bool // that is to be its own
	Container  *Container
}

// launch starts the supervisor of a container whose state directory is there, and waits until the sandbox stands.
func (h *held) launch(d *directory, tty *os.File) (*exec.Cmd, error) {
	s := started{word: holdWord, leads: h.Leads, config: h}
	if h.TTY {
		s.tty = tty
	}
	return s.start(d, func(cmd *exec.Cmd) error {
		cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
		begun := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread, which is elsewhere, ends with us
			err := h.Container.place()
			if err == nil {
				err = cmd.Start()
			}
			begun <- err
		}()
		return <-begun
	})
}

// supervisor holds one container.
type supervisor struct {
	*held
	box      backend.Sandbox
	listener *net.UnixListener
	tty      *os.File

	mu    sync.Mutex
	first backend.Process // nil: not started
	ended chan int        // the code to exit with
	once  sync.Once
}

// hold is the supervisor of a container, to its end.
func hold(backends func(*config.Policy) backend.Backend) int {
	ready, signals := asStarted()
	s := &supervisor{ended: make(chan int, 1)}
	err := s.build(backends)
	a := answer{Status: specs.StateCreated}
	if err != nil {
		a.Error = err.Error()
	}
	if tell := json.NewEncoder(ready).Encode(a); tell != nil || err != nil {
		if s.box != nil {
			_, _ = s.box.Close()
		}
		return 1 // nobody knows of the container
	}
	_ = ready.Close()
	go s.serve()
	go s.forward(signals)
	go func() { // a limit of the sandbox's own, or a fault
		<-s.box.Done()
		if s.status() == specs.StateCreated {
			s.end(1)
		}
	}()
	code := <-s.ended
	_ = s.listener.Close()
	_, _ = s.box.Close()
	return code
}

func (s *supervisor) build(backends func(*config.Policy) backend.Backend) error {
	text, err := io.ReadAll(io.LimitReader(os.NewFile(heldConfig, "config"), maxRecord))
	if err == nil {
		s.held = &held{}
		err = json.Unmarshal(text, s.held)
	}
	if err != nil {
		return err
	}
	c := s.Container
	if s.TTY {
		s.tty = os.NewFile(heldTTY, "terminal")
		if s.Leads {
			if err := control(s.tty); err != nil {
				return err
			}
		}
	}
	d := &directory{id: s.ID, dir: os.NewFile(heldState, "state")}
	if d.root, err = os.OpenRoot(filepath.Join("/proc/self/fd", strconv.Itoa(heldState))); err != nil {
		return err
	}
	if d.lock, err = d.root.OpenFile("lock", os.O_RDWR|unix.O_NOFOLLOW, 0); err == nil {
		err = unix.Flock(int(d.lock.Fd()), unix.LOCK_EX) // held until the end of this process
	}
	if err != nil {
		return err
	}
	unix.Umask(int(c.Process.Umask))
	if n := c.OOMScore; n != nil {
		if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(*n)), 0); err != nil {
			return err
		}
	}
	if c.Seccomp != nil {
		if err := d.writeFile("seccomp.json", c.Seccomp); err != nil {
			return err
		}
		c.Policy.Seccomp = filepath.Join(s.State, "seccomp.json")
	}
	spec := &backend.Spec{Policy: &c.Policy, Argv: c.Process.Argv, Dir: "/", Environ: []string{}, Shape: c.Shape}
	box, failed, err := backend.Open(context.Background(), backends(&c.Policy), spec)
	if err != nil {
		return err
	}
	if failed != nil {
		return errors.New(failed.Reason)
	}
	s.box = box
	umask := unix.Umask(0o177)
	s.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: d.controlPath(), Net: "unix"})
	unix.Umask(umask)
	if err != nil {
		return err
	}
	s.listener.SetUnlinkOnClose(false) // it goes with the directory
	return d.write(&record{ID: s.ID, PID: os.Getpid(), Bundle: s.Bundle, Created: time.Now(), Annotations: c.Annotations, Notes: c.Notes})
}

func (s *supervisor) status() specs.ContainerState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		return specs.StateCreated
	}
	return specs.StateRunning
}

func (s *supervisor) end(code int) { s.once.Do(func() { s.ended <- code }) }

// forward hands on what is sent to this process as to the container's.
func (s *supervisor) forward(signals <-chan os.Signal) {
	for sig := range signals {
		n := sig.(syscall.Signal)
		if n != unix.SIGWINCH {
			_ = s.kill(n)
			continue
		}
		s.mu.Lock()
		if s.first != nil && s.tty != nil {
			rows, cols := sizeOf(s.tty)
			_ = s.first.Resize(backend.WinSize{Rows: rows, Cols: cols})
		}
		s.mu.Unlock()
	}
}

// kill sends a signal to the container's process. Before there is one, it ends the container if it would end a process.
func (s *supervisor) kill(n unix.Signal) error {
	s.mu.Lock()
	first := s.first
	s.mu.Unlock()
	switch {
	case first != nil:
		if err := first.Signal(n); errors.Is(err, os.ErrProcessDone) {
			return errNotRunning
		} else if err != nil {
			return err
		}
	case n != unix.SIGCHLD && n != unix.SIGCONT && n != unix.SIGURG && n != unix.SIGWINCH && n != unix.SIGSTOP && n != unix.SIGTSTP:
		s.end(128 + int(n))
	}
	return nil
}

func (s *supervisor) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first != nil {
		return errors.New("cannot start a container that has started")
	}
	p := &s.Container.Process
	e := &backend.Exec{Argv: p.Argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if s.tty != nil {
		e.Stdin, e.Stdout, e.Stderr = s.tty, s.tty, nil
		rows, cols := sizeOf(s.tty)
		e.TTY = &backend.WinSize{Rows: rows, Cols: cols}
	}
	first, err := s.box.Start(context.Background(), e)
	if err != nil {
		return err
	}
	s.first = first
	go func() {
		r := first.Wait()
		if why := reasonOf(r); why != "" {
			s.Log.error("container " + s.ID + ": " + why)
			if r.Status == status.ExecFailed {
				_, _ = fmt.Fprintln(e.Stdout, "confine oci:", why)
			}
		}
		s.end(exitOf(r))
	}()
	return nil
}

// exitOf is the code that engines know an end by.
func exitOf(r *status.Report) int {
	switch {
	case r.ExitCode != nil:
		return *r.ExitCode
	case unix.SignalNum(r.Signal) != 0:
		return 128 + int(unix.SignalNum(r.Signal))
	case r.Status == status.MemLimit:
		return 128 + int(unix.SIGKILL)
	}
	return r.RC
}

// reasonOf is why it ended, if not by itself.
func reasonOf(r *status.Report) string {
	switch r.Status {
	case status.OK, status.Failed, status.KilledSignal:
		return ""
	}
	return string(r.Status) + ": " + r.Reason
}

func (s *supervisor) serve() {
	for {
		c, err := s.listener.AcceptUnix()
		if err != nil {
			return
		}
		go s.hear(newLine(c))
	}
}

func (s *supervisor) hear(l *line) {
	defer func() {
		for _, f := range l.fds {
			_ = f.Close()
		}
		_ = l.Close()
	}()
	var o order
	if l.peer() != nil || l.in.Decode(&o) != nil {
		return
	}
	a := answer{Status: s.status(), UID: s.Container.Policy.User.UID, GID: s.Container.Policy.User.GID}
	var err error
	switch o.Op {
	case opState:
	case opStart:
		err = s.start()
	case opKill:
		if o.All && o.Signal == int(unix.SIGKILL) && a.Status == specs.StateCreated {
			s.end(128 + o.Signal)
		} else {
			err = s.kill(unix.Signal(o.Signal))
		}
	case opExec:
		s.exec(l, &o)
		return
	default:
		err = fmt.Errorf("unknown order %q", o.Op)
	}
	if err != nil {
		a.Error = err.Error()
	}
	_ = l.send(a)
}

// exec starts another process in the container, whose streams came with the order, and which belongs to whoever has sent it.
func (s *supervisor) exec(l *line, o *order) {
	if s.status() != specs.StateRunning || o.Start == nil || len(l.fds) != maxFiles {
		_ = l.send(answer{Error: errNotRunning.Error()})
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e := &backend.Exec{Argv: o.Start.Argv, Env: o.Start.Env, Dir: o.Start.Dir, Stdin: l.fds[0], Stdout: l.fds[1], Stderr: l.fds[2]}
	if o.TTY {
		e.TTY, e.Stderr = &backend.WinSize{Rows: o.Rows, Cols: o.Cols}, nil
	}
	p, err := s.box.Start(ctx, e)
	if err != nil {
		_ = l.send(answer{Error: err.Error()})
		return
	}
	if l.send(answer{Status: specs.StateRunning}) != nil {
		cancel()
	}
	go func() {
		for {
			var next order
			if l.in.Decode(&next) != nil {
				cancel() // whoever waited for it is gone
				return
			}
			if next.Op == opResize {
				_ = p.Resize(backend.WinSize{Rows: next.Rows, Cols: next.Cols})
			} else {
				_ = p.Signal(unix.Signal(next.Signal))
			}
		}
	}()
	r := p.Wait()
	code := exitOf(r)
	_ = l.send(answer{Exit: &code, Reason: reasonOf(r)})
}

// writePID tells an engine the number of a process, all of it at once.
func writePID(path string, pid int) error {
	if path == "" {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path))
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	_, _ = w.WriteString(strconv.Itoa(pid))
	err = errors.Join(w.Flush(), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
