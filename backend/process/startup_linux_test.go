package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
)

// heldCache is an environment whose cache of images somebody else is unpacking to, as far
// as anybody can see: an image waits for that.
func heldCache(t *testing.T) (env []string, dir string) {
	t.Helper()
	home := t.TempDir()
	dir = filepath.Join(home, "confine", "rootfs")
	must.Do(t, os.MkdirAll(dir, 0o700))
	f, err := os.Open(dir)
	must.Do(t, err)
	t.Cleanup(func() { f.Close() })
	must.Do(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	return []string{"XDG_CACHE_HOME=" + home}, dir
}

func TestASignalWhileAnImageIsUnpackedStartsNothing(t *testing.T) {
	src := filepath.Join(t.TempDir(), "image.tar")
	must.Do(t, os.WriteFile(src, make([]byte, 10240), 0o600))
	for _, c := range []struct {
		sig    os.Signal // nil: the context
		status status.Status
		cause  status.Cause
		name   string
		rc     int
	}{
		{unix.SIGTERM, status.KilledTerm, status.CauseCaller, "SIGTERM", 143},
		{unix.SIGINT, status.KilledSignal, status.CauseCaller, "SIGINT", 130},
		{unix.SIGHUP, status.KilledSignal, status.CauseCaller, "SIGHUP", 129},
		{nil, status.KilledKill, status.CauseContext, "SIGKILL", 137},
	} {
		env, dir := heldCache(t)
		policy := &config.Policy{}
		policy.Filesystem.Rootfs = src
		signals := make(chan os.Signal, 2)
		signals <- unix.SIGUSR1 // for the run, if there is one
		ctx, cancel := context.WithCancel(t.Context())
		if c.sig != nil {
			signals <- c.sig
		} else {
			cancel()
		}
		r, err := Execute(ctx, policy, &Command{Argv: []string{"true"}, Environ: env}, supervisor.Options{Stdin: -1, Stdout: -1, Stderr: -1, Signals: signals},
			func(*Plan) { t.Error("it was planned") })
		cancel()
		must.Do(t, err)
		if r.Status != c.status || r.Cause != c.cause || r.Signal != c.name || r.RC != c.rc || r.ExitCode != nil {
			t.Errorf("%s: %s, %s, %s, rc %d: %s", c.name, r.Status, r.Cause, r.Signal, r.RC, r.Reason)
		}
		if names, _ := os.ReadDir(dir); len(names) != 0 {
			t.Errorf("%s: %d names are left", c.name, len(names))
		}
	}
}

func TestSignalsThatComeLateOrAskForNoEndAreForTheRun(t *testing.T) {
	signals := make(chan os.Signal)
	u := newStartupSignals(t.Context(), signals, nil)
	u.listen()
	defer u.end()
	signals <- unix.SIGUSR1
	must.Do(t, u.finish())
	signals <- unix.SIGTERM
	for _, want := range []os.Signal{unix.SIGUSR1, unix.SIGTERM} {
		select {
		case got := <-u.later:
			if got != want {
				t.Errorf("%v, not %v", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%v was lost", want)
		}
	}
	if u.ctx.Err() != nil {
		t.Error("it was stopped")
	}
}

func TestWhatCameBetweenTwoPlansEndsTheSecond(t *testing.T) {
	signals := make(chan os.Signal)
	u := newStartupSignals(t.Context(), signals, nil)
	u.listen()
	defer u.end()
	_ = u.finish()
	signals <- unix.SIGUSR1
	signals <- unix.SIGINT
	signals <- unix.SIGWINCH // by now the others have been taken
	u.rearm()
	if by := (stoppedBy{}); !errors.As(u.finish(), &by) || by.sig != unix.SIGINT {
		t.Errorf("%v", u.finish())
	}
	if got := <-u.later; got != unix.SIGUSR1 {
		t.Errorf("%v", got)
	}
}

// A plan can take for ever, as one does that reads a file which nobody writes.
func TestASignalWhileARunIsPlannedStartsNothing(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "policy.toml")
	must.Do(t, unix.Mkfifo(fifo, 0o600))
	for _, c := range []struct {
		sig    os.Signal // nil: the context
		status status.Status
		reason string
		rc     int
	}{
		{unix.SIGTERM, status.KilledTerm, "stopped by SIGTERM while the run was planned: nothing was started", 143},
		{unix.SIGINT, status.KilledSignal, "stopped by SIGINT while the run was planned: nothing was started", 130},
		{unix.SIGHUP, status.KilledSignal, "stopped by SIGHUP while the run was planned: nothing was started", 129},
		{nil, status.KilledKill, "cancelled by the caller while the run was planned: nothing was started", 137},
	} {
		policy := config.Default()
		policy.Seccomp = fifo
		ctx, cancel := context.WithCancel(t.Context())
		signals := make(chan os.Signal, 2)
		signals <- unix.SIGUSR1
		if c.sig != nil {
			signals <- c.sig
		} else {
			cancel()
		}
		r, err := Execute(ctx, &policy, &Command{Argv: []string{"true"}}, supervisor.Options{Stdin: -1, Stdout: -1, Stderr: -1, Signals: signals},
			func(*Plan) { t.Error("it was planned") })
		cancel()
		must.Do(t, err)
		if r.Status != c.status || r.Reason != c.reason || r.RC != c.rc {
			t.Errorf("%s, rc %d: %s", r.Status, r.RC, r.Reason)
		}
	}
}

// What comes when the command runs is for the command: it is heard by then, however short the plan took.
func TestSignalsAreHeardBeforeTheCommandStarts(t *testing.T) {
	for range 5 {
		var heard, before atomic.Bool
		policy := config.Default()
		events := supervisor.Events{Notify: func() { heard.Store(true) }, Started: func() { before.Store(heard.Load()) }}
		r, err := Execute(t.Context(), &policy, &Command{Argv: []string{"true"}},
			supervisor.Options{Stdin: -1, Stdout: -1, Stderr: -1, Signals: make(chan os.Signal), Events: events}, nil)
		must.Do(t, err)
		if r.Status == status.OK && !before.Load() {
			t.Fatal("they are not")
		}
	}
}
