package confine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/backends"
	"github.com/confine-run/confine/status"
)

// Init turns the process into the inside of a run, if that is what it was started as; then it doesn't return. A
// program that starts anything calls it first thing in main.
func Init() { backends.Init() }

// Cmd is a command that is to run, or runs, or has run, once. Its fields are set before it starts.
type Cmd struct {
	// Args is the command with its arguments.
	Args []string
	// Policy is what it may do; nil: [Default]. In a sandbox, it is the sandbox's, and this is nil.
	Policy *Policy
	// Dir is the current directory of the run, on the caller's side, which policies show in part ("rw", "ro"); empty: that of this process. In
	// a sandbox it is a directory as seen inside; empty: where the sandbox starts its processes.
	Dir string
	// Env is K=V, set inside beside what the policy passes of this process's environment.
	Env []string
	// Stdin: nil is the null device. Stdout, Stderr: nil drops what is written; if they are the same, one goroutine at a time writes.
	// What passes a limit is followed by a line "[TRUNCATED]". Wait waits for a writer that blocks, whatever limit has ended the command,
	// and gives the error of one that fails; the command then gets SIGPIPE if it writes more.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// TTY, if not nil, puts the three streams on a terminal of this size, whose output goes to Stdout.
	TTY *WinSize
	// Limits are narrower than the policy's.
	Limits Limits
	// Backend builds its sandbox; nil: the one for the policy. Tests set a mock of package confinetest.
	Backend backend.Backend
	// Process is the process, once it was started.
	Process *Process

	ctx     context.Context
	sandbox *Sandbox // nil: one of its own
	pool    *Pool    // or one of a pool's
	outputs []*output
}

// output is a writer of the caller's, and what it said first that wasn't nil.
type output struct {
	io.Writer
	err error // read when the process has ended and nobody writes any more
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// output is what stands for a writer while the command runs. A file is handed on as it is.
func (c *Cmd) output(w io.Writer) io.Writer {
	switch w.(type) {
	case nil, *os.File:
		return w
	}
	o := &output{Writer: w}
	c.outputs = append(c.outputs, o)
	return o
}

// WinSize is the size of a terminal: rows and columns of characters.
type WinSize = backend.WinSize

// Limits are those of one process, in a sandbox that has its own: Time, of the wall clock; CPU, of the process and those
// below it; and Output, bytes of each stream. 0 is none.
type Limits = backend.Limits

// Command is a run of a program, by its path or its name in PATH, in a sandbox of its own.
func Command(name string, arg ...string) *Cmd {
	return CommandContext(context.Background(), name, arg...)
}

// CommandContext is [Command], and everything inside is killed when ctx ends.
func CommandContext(ctx context.Context, name string, arg ...string) *Cmd {
	return &Cmd{Args: append([]string{name}, arg...), ctx: ctx}
}

// ExitError is a run that did not end well: not by exit code 0, or not at all. Report has the rest.
type ExitError struct {
	Report *Report
	write  error
}

func (e *ExitError) Error() string { return string(e.Report.Status) + ": " + e.Report.Reason }

// Unwrap is what a writer of the caller's said that failed, which may be why the command ended.
func (e *ExitError) Unwrap() error { return e.write }

// Start starts the command, and doesn't wait for it. An error is about what was asked for, a *[UsageError] mostly, and
// nothing was started. A sandbox that can't be built, or would not enforce what the policy insists on, is told by Wait, in
// the report.
func (c *Cmd) Start() error {
	if c.Process != nil {
		return errors.New("confine: already started")
	}
	if c.ctx == nil || len(c.Args) == 0 {
		return errors.New("confine: a Cmd is made by Command")
	}
	c.outputs = nil
	e := &backend.Exec{Argv: c.Args, Env: c.Env, Stdin: c.Stdin, Stdout: c.output(c.Stdout), TTY: c.TTY, Limits: c.Limits}
	if e.Stderr = e.Stdout; !backend.SameWriter(c.Stdout, c.Stderr) {
		e.Stderr = c.output(c.Stderr)
	}
	var p backend.Process
	var err error
	if c.sandbox != nil || c.pool != nil {
		if c.Policy != nil {
			return errors.New("confine: a process has the policy of its sandbox")
		}
		e.Dir = c.Dir
	}
	switch {
	case c.pool != nil:
		if p, err = c.pool.p.Run(c.ctx, e); err != nil {
			return unbuilt(err)
		}
	case c.sandbox != nil:
		p, err = c.sandbox.box.Start(c.ctx, e)
	default:
		p, err = c.run(e)
	}
	if err != nil {
		return err
	}
	c.Process = &Process{p}
	return nil
}

// run starts it in a sandbox of its own.
func (c *Cmd) run(e *backend.Exec) (backend.Process, error) {
	spec, err := specOf(c.Policy, c.Dir)
	if err != nil {
		return nil, err
	}
	spec.Argv = c.Args
	b := c.Backend
	if b == nil {
		b = backends.For(spec.Policy)
	}
	return backend.Run(c.ctx, b, spec, e)
}

// specOf is what this process wants now.
func specOf(p *Policy, dir string) (*backend.Spec, error) {
	if p == nil {
		p = Default()
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return nil, err
		}
	}
	policy := *p
	return &backend.Spec{Policy: &policy, Dir: dir, Environ: os.Environ()}, nil
}

// Wait waits until the command has ended and everything that it wrote was delivered. The report is there in any case; the
// error is an *[ExitError] unless its status is OK, and that of a writer which failed if it is.
func (c *Cmd) Wait() (*Report, error) {
	if c.Process == nil {
		return nil, errors.New("confine: not started")
	}
	r := c.Process.p.Wait()
	var write error
	for _, o := range c.outputs {
		if write == nil {
			write = o.err
		}
	}
	if r.Status != status.OK {
		return r, &ExitError{r, write}
	}
	return r, write
}

// Run is Start and Wait. Without a report nothing was started.
func (c *Cmd) Run() (*Report, error) {
	if err := c.Start(); err != nil {
		return nil, err
	}
	return c.Wait()
}

// Output is Run, and gives what the command wrote to its standard output.
func (c *Cmd) Output() ([]byte, *Report, error) {
	if c.Stdout != nil {
		return nil, nil, errors.New("confine: Stdout is set already")
	}
	var b bytes.Buffer
	c.Stdout = &b
	r, err := c.Run()
	return b.Bytes(), r, err
}

// CombinedOutput is Run, and gives what the command wrote to its standard output and its standard error.
func (c *Cmd) CombinedOutput() ([]byte, *Report, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, nil, errors.New("confine: Stdout or Stderr is set already")
	}
	var b bytes.Buffer
	c.Stdout, c.Stderr = &b, &b
	r, err := c.Run()
	return b.Bytes(), r, err
}

// Process is a command that was started.
type Process struct{ p backend.Process }

// Signal sends a signal to the process and its process group. What has ended is os.ErrProcessDone.
func (p *Process) Signal(sig os.Signal) error { return p.p.Signal(sig) }

// Kill ends it at once; in a sandbox of its own with everybody inside.
func (p *Process) Kill() error { return p.p.Signal(os.Kill) }

// Resize changes the size of its terminal.
func (p *Process) Resize(size WinSize) error { return p.p.Resize(size) }
