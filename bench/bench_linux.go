package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// bench is what all measurements share.
type bench struct {
	scratch string // removed at the end
	work    string // where commands start
	env     []string
	confine string
	against string // another build, or ""
	bwrap   string // or ""
	self    string // this program, where a confined command can see it
	n       int    // rounds, or 0
	null    *os.File
	undo    []func() // after the measurement that is being made
}

// path is short, so that finding tool chains along it costs everybody the same.
const path = "/usr/local/bin:/usr/bin:/bin"

func (b *bench) open() (err error) {
	if b.scratch, err = os.MkdirTemp("", "bench-"); err != nil {
		return err
	}
	b.work = filepath.Join(b.scratch, "work")
	for _, dir := range []string{"work", "home", "tmp", "run"} {
		if err := os.Mkdir(filepath.Join(b.scratch, dir), 0o700); err != nil {
			return err
		}
	}
	// Whatever confine might leave somewhere would be left in here.
	b.env = []string{
		"PATH=" + path, "LANG=C.UTF-8", "HOME=" + b.scratch + "/home",
		"TMPDIR=" + b.scratch + "/tmp", "XDG_RUNTIME_DIR=" + b.scratch + "/run",
	}
	if b.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return err
	}
	for _, name := range []*string{&b.confine, &b.against} {
		if *name == "" {
			continue
		}
		if *name, err = filepath.Abs(*name); err != nil {
			return err
		}
	}
	b.bwrap, _ = exec.LookPath("bwrap")
	b.self = filepath.Join(b.work, "bench")
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	return os.WriteFile(b.self, program, 0o755)
}

func (b *bench) close() {
	if b.null != nil {
		_ = b.null.Close()
	}
	_ = os.RemoveAll(b.scratch)
}

// closeAll ends what a measurement needed.
func (b *bench) closeAll() {
	for _, undo := range b.undo {
		undo()
	}
	b.undo = nil
}

// command is something to start, the same cheap way for all peers.
type command struct {
	argv []string
	env  []string // nil: the bench's own, small one
	dir  string   // "": the work directory
	attr *syscall.SysProcAttr
}

// start starts c with these as 0, 1 and 2; nil is /dev/null, but for 2.
func (b *bench) start(c *command, files [3]*os.File) (*os.Process, error) {
	files[2] = os.Stderr
	for i := range files {
		if files[i] == nil {
			files[i] = b.null
		}
	}
	attr := &os.ProcAttr{Dir: c.dir, Env: c.env, Files: files[:], Sys: c.attr}
	attr.Dir = cmp.Or(attr.Dir, b.work)
	if attr.Env == nil {
		attr.Env = b.env
	}
	return os.StartProcess(c.argv[0], c.argv, attr)
}

// finish waits for p, which has to have gone well, and gives the CPU time, in milliseconds, of it
// and of everything that it waited for; 0 of bwrap, which doesn't wait for what it starts.
func (b *bench) finish(c *command, p *os.Process) (cpu float64, err error) {
	state, err := p.Wait()
	if err != nil {
		return 0, err
	}
	if !state.Success() {
		return 0, fmt.Errorf("%s: %s", strings.Join(c.argv, " "), state)
	}
	if c.argv[0] == b.bwrap {
		return 0, nil
	}
	return milliseconds(state.UserTime() + state.SystemTime()), nil
}

// timed is a peer that is judged by how long it takes, in milliseconds.
func (b *bench) timed(name string, c command) peer {
	return peer{name, func() (reading, error) {
		began := time.Now()
		p, err := b.start(&c, [3]*os.File{})
		if err != nil {
			return reading{}, err
		}
		cpu, err := b.finish(&c, p)
		return reading{milliseconds(time.Since(began)), cpu}, err
	}}
}

// took is a peer of what this process does itself. A reading is how long that took.
func took(name string, unit time.Duration, do func() error) peer {
	return peer{name, func() (reading, error) {
		began := time.Now()
		err := do()
		return reading{value: float64(time.Since(began)) / float64(unit)}, err
	}}
}

// after is the same, once something has come to be so.
func (p peer) after(so func() error) peer {
	return peer{p.name, func() (reading, error) {
		if err := so(); err != nil {
			return reading{}, err
		}
		return p.take()
	}}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
