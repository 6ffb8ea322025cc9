package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// bench is what all measurements share.
type bench struct {
	root    string // of the module
	scratch string // removed at the end
	work    string // where commands start
	env     []string
	confine string
	against string // another build, or ""
	bwrap   string // or ""
	self    string // this program, where a confined command can see it
	n       int
	null    *os.File
	stderr  *os.File // what the commands complain about
}

// path is short, so that finding tool chains along it costs everybody the same.
const path = "/usr/local/bin:/usr/bin:/bin"

func open(o *options) (b *bench, err error) {
	b = &bench{n: o.rounds, confine: o.confine, stderr: os.Stderr}
	if b.scratch, err = os.MkdirTemp("", "bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	b.work = filepath.Join(b.scratch, "work")
	for _, dir := range []string{"work", "home", "tmp", "run"} {
		if err := os.Mkdir(filepath.Join(b.scratch, dir), 0o700); err != nil {
			return nil, err
		}
	}
	// Whatever confine might leave somewhere would be left in here.
	b.env = []string{
		"PATH=" + path, "LANG=C.UTF-8", "HOME=" + b.scratch + "/home",
		"TMPDIR=" + b.scratch + "/tmp", "XDG_RUNTIME_DIR=" + b.scratch + "/run",
	}
	if b.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return nil, err
	}
	if b.root, err = moduleRoot(); err != nil {
		return nil, err
	}
	if b.confine == "" {
		if b.confine, err = b.build(); err != nil {
			return nil, err
		}
	}
	for from, to := range map[string]*string{b.confine: &b.confine, o.against: &b.against} {
		if from == "" {
			continue
		}
		if *to, err = filepath.Abs(from); err != nil {
			return nil, err
		}
	}
	b.self = filepath.Join(b.work, "bench")
	if err = copyFile(b.self, "/proc/self/exe"); err != nil {
		return nil, err
	}
	b.bwrap, _ = exec.LookPath("bwrap")
	// What a run leaves behind becomes a child of ours, and shows.
	return b, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

func (b *bench) close() {
	if b.null != nil {
		_ = b.null.Close()
	}
	_ = os.RemoveAll(b.scratch)
}

// rounds is how often to measure, where usual suits the measurement.
func (b *bench) rounds(usual int) int {
	if b.n > 0 {
		return b.n
	}
	return usual
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(string(bytes.TrimSpace(out))), nil
}

// build makes the binary as "make build" makes it.
func (b *bench) build() (string, error) {
	binary := filepath.Join(b.scratch, "confine")
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "urfave_cli_no_docs", "-ldflags", "-s -w -E main.entry", "-o", binary, ".")
	cmd.Dir, cmd.Stderr = b.root, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return binary, cmd.Run()
}

func copyFile(to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o755)
}
