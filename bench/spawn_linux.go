package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// command is something to start, the same cheap way for all peers.
type command struct {
	argv []string
	env  []string // nil: the bench's own, small one
	dir  string   // "": the work directory
}

// start starts c with these as 0, 1 and 2; nil is /dev/null.
func (b *bench) start(c *command, files [3]*os.File) (*os.Process, error) {
	for i := range files {
		if files[i] == nil {
			files[i] = b.null
		}
	}
	attr := &os.ProcAttr{Dir: c.dir, Env: c.env, Files: files[:]}
	if attr.Dir == "" {
		attr.Dir = b.work
	}
	if attr.Env == nil {
		attr.Env = b.env
	}
	p, err := os.StartProcess(c.argv[0], c.argv, attr)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// finish waits for p, which has to have gone well, and gives the CPU time of it
// and of everything that it waited for.
func finish(c *command, p *os.Process) (cpu time.Duration, err error) {
	state, err := p.Wait()
	if err != nil {
		return 0, err
	}
	if !state.Success() {
		return 0, fmt.Errorf("%s: %s", strings.Join(c.argv, " "), state)
	}
	usage := state.SysUsage().(*syscall.Rusage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// time is one run of c, in milliseconds.
func (b *bench) time(c *command) (reading, error) {
	began := time.Now()
	p, err := b.start(c, [3]*os.File{2: b.stderr})
	if err != nil {
		return reading{}, err
	}
	cpu, err := finish(c, p)
	if c.argv[0] == b.bwrap {
		cpu = 0 // it doesn't wait for what it starts
	}
	return reading{value: milliseconds(time.Since(began)), cpu: milliseconds(cpu)}, err
}

// timed is a peer that is judged by how long it takes.
func (b *bench) timed(name string, c command) peer {
	return peer{name, func() (reading, error) { return b.time(&c) }}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
