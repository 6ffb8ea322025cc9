package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/serve"
	"github.com/confine-run/confine/status"
)

// holdWord is how this program is told to be the supervisor of a session.
const holdWord = "__hold"

// began is what the supervisor tells whoever started it: one line, on descriptor 3.
type began struct {
	ID      string         `json:"id,omitempty"`
	Notices []string       `json:"notices,omitempty"`
	Error   string         `json:"error,omitempty"`
	Hint    string         `json:"hint,omitempty"`
	Usage   bool           `json:"usage,omitempty"`
	Report  *status.Report `json:"report,omitempty"`
}

// launch starts the supervisor of a session in the background, with the arguments of "start".
func launch(ctx context.Context, args []string) (*began, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command(self, append([]string{"session", holdWord}, args...)...)
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	var b began
	if err := json.NewDecoder(r).Decode(&b); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("the supervisor of the session ended without a word: %w", errors.Join(ctx.Err(), err))
	}
	if b.Error != "" {
		_ = cmd.Wait() // it ends
	}
	return &b, nil
}

// hold is the supervisor of a session. It tells how that began, and stays to its end.
func hold(args []string, backends func(*config.Policy) backend.Backend) int {
	pipe := os.NewFile(3, "began")
	unix.CloseOnExec(3)
	tell := func(b *began) {
		_ = json.NewEncoder(pipe).Encode(b)
		_ = pipe.Close()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	signal.Ignore(syscall.SIGHUP)
	s, err := parseStart(args)
	if err == nil {
		err = s.hold(ctx, backends, tell)
	}
	if err == nil {
		return 0
	}
	b := &began{Error: err.Error()}
	var usage *config.UsageError
	var unbuilt *backend.BuildError
	if errors.As(err, &usage) {
		b.Usage, b.Error, b.Hint = true, usage.Msg, usage.Hint
	}
	if errors.As(err, &unbuilt) {
		b.Report = unbuilt.Report
		if e := unbuilt.Report.SetupError; e != nil {
			b.Hint = e.Hint
		}
	}
	tell(b)
	return 1
}

func (s *startLine) hold(ctx context.Context, backends func(*config.Policy) backend.Backend, tell func(*began)) error {
	src := config.Here(os.Environ(), config.SystemFile)
	src.Flags = s.settings
	r, err := config.Resolve(src)
	if err != nil {
		return err
	}
	r.Lift("a session", "time-limit", "cpu-time", "output-limit")
	if err := r.Policy.Validate(); err != nil {
		return r.WithOrigin(err)
	}
	var owner <-chan struct{}
	if s.ownerPID > 0 {
		if owner, err = gone(s.ownerPID); err != nil {
			return err
		}
	}
	parent, err := base()
	if err != nil {
		return err
	}
	if err := untaken(s.name); err != nil {
		return err
	}
	h := newHolder(parent)
	o := sandboxes.Options{Backend: backends, Max: maxHeld, Opened: h.opened}
	server := &serve.Server{Sources: src, Hidden: []string{filepath.Dir(parent)}} // as a whole: what is in it comes and goes with other sessions
	if runs, err := src.StoreDir(); err == nil {
		state := filepath.Dir(runs)
		server.Changes, o.Snapshots = runs, filepath.Join(state, snapshotsName)
		server.Hidden = append(server.Hidden, state)
	}
	m := sandboxes.New(o)
	defer m.Close()
	server.Manager = m
	spec := &backend.Spec{Policy: r.Policy.Hiding(server.Hidden), Resolved: r, Dir: src.Dir, Environ: src.Environ, ConfigFiles: r.Protected, Argv: s.command}
	me := serve.OwnerOf(os.Geteuid())
	b, err := m.Create(ctx, me, sandboxes.Request{Spec: spec, Name: s.name, Lifetime: s.lifetime, Idle: s.idle, From: s.from, Origin: origin(s.settings, s.command, src.Dir)})
	if err != nil {
		if _, ok := errors.AsType[*config.UsageError](err); ok {
			err = r.WithOrigin(err)
		}
		if errors.Is(err, sandboxes.ErrNoSnapshot) {
			err = &config.UsageError{Msg: fmt.Sprintf("--from %q: %v", s.from, err), Hint: listSnapshots}
		}
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() {
		defer end()
		select {
		case <-owner:
			for _, b := range m.List(me) {
				b.Close("owner", "the process "+strconv.Itoa(s.ownerPID)+" that owned it has ended")
			}
		case <-h.ended:
		case <-ctx.Done():
		}
	}()
	tell(&began{ID: b.ID, Notices: r.Notices})
	err = server.Serve(ctx, h.listener)
	close(h.closed)
	h.group.Wait()
	return err
}

// maxHeld is how many sessions one supervisor holds.
const maxHeld = 256

// write makes the files of a session, and holds its lock.
func (i *info) write() (lock *os.File, err error) {
	if err := os.Mkdir(i.dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(i.dir, "session")
	f, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		err = json.NewEncoder(f).Encode(i)
	}
	if err == nil {
		err = os.Rename(path+".new", path) // with its lock: nobody sees it without
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(i.dir))
	}
	return f, nil
}

// gone is closed when a process has ended.
func gone(pid int) (<-chan struct{}, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, &config.UsageError{Msg: "--owner-pid " + strconv.Itoa(pid) + ": " + err.Error(), Err: err}
	}
	c := make(chan struct{})
	go func() {
		defer unix.Close(fd)
		for {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if n, err := unix.Poll(poll, -1); n > 0 || err != nil && err != unix.EINTR {
				close(c)
				return
			}
		}
	}()
	return c, nil
}

// wait waits for the end of a session that is asked to end, which its file says.
func (i *info) wait(d time.Duration) (*info, error) {
	for end := time.Now().Add(d); ; time.Sleep(10 * time.Millisecond) {
		now, err := read(i.dir)
		if err != nil || now.Ended != nil {
			return now, err
		}
		if time.Now().After(end) {
			return nil, errors.New("the session has not ended")
		}
	}
}
