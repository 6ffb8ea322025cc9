package main

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// suite is a pytest suite that computes, parses, and writes small files.
//
//go:embed testdata/test_work.py
var suite []byte

// pytest is the suite, ready to run in a directory of its own, or no command where there is no
// pytest. A /tmp in memory for all: else the disk would be measured.
func (b *bench) pytest() (command, error) {
	python := "/usr/bin/python3"
	if exec.Command(python, "-m", "pytest", "--version").Run() != nil {
		return command{}, nil
	}
	dir, err := os.MkdirTemp(b.scratch, "pytest-")
	if err != nil {
		return command{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, "test_work.py"), suite, 0o644); err != nil {
		return command{}, err
	}
	fast, err := os.MkdirTemp("/dev/shm", "bench-")
	b.undo = append(b.undo, func() { _ = os.RemoveAll(fast) })
	return command{
		argv: []string{python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_work.py"}, dir: dir,
		// The same settings for all.
		env: append(b.withoutTmp(), "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1", "TMPDIR="+fast),
	}, err
}

func (b *bench) withoutTmp() []string {
	return slices.DeleteFunc(slices.Clone(b.env), func(e string) bool { return strings.HasPrefix(e, "TMPDIR=") })
}

func (b *bench) suites() ([]peer, error) {
	c, err := b.pytest()
	if err != nil || c.argv == nil {
		return nil, err
	}
	inside := b.confined("-p testing", c.argv...)
	inside.dir = c.dir
	peers := []peer{b.timed(bare, c), b.timed(testingProfile, inside)}
	if b.bwrap != "" {
		other := b.bwrapped([]string{"--bind", c.dir, c.dir, "--chdir", c.dir}, c.argv...)
		other.dir, other.env = c.dir, c.env[:len(c.env)-1] // its /tmp is in memory
		peers = append(peers, b.timed(bwrap, other))
	}
	return peers, nil
}
