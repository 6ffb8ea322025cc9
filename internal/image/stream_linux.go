package image

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// compressions are told by how they begin. Programs of the host undo them: gzip
// and zstd in this program would cost every run the initialisation of their
// tables, whether it has an image or not.
var compressions = [...]struct {
	magic   string
	program string
}{
	{"\x1f\x8b", "gzip"},
	{"\x28\xb5\x2f\xfd", "zstd"},
}

// plain gives what is in a stream that may be compressed. Closing it ends the
// program that undoes that, and so does the end of ctx.
func plain(ctx context.Context, from io.Reader) (io.ReadCloser, error) {
	r := bufio.NewReaderSize(from, 64<<10)
	head, _ := r.Peek(4)
	for _, c := range compressions {
		if bytes.HasPrefix(head, []byte(c.magic)) {
			return startProgram(ctx, c.program, r)
		}
	}
	return io.NopCloser(until{ctx, r}), nil
}

// errProgram: what is compressed can't be undone to the end.
var errProgram = errors.New("can't be decompressed")

// program is one that runs beside us.
type program struct {
	cmd  *exec.Cmd
	out  io.ReadCloser
	text bytes.Buffer
	some bool  // of it came
	done bool  // it was waited for
	err  error // then
}

func startProgram(ctx context.Context, name string, in io.Reader) (*program, error) {
	file, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", errNoProgram, name)
	}
	p := &program{cmd: exec.CommandContext(ctx, file, "-dc")}
	p.cmd.Env = []string{"PATH=/usr/bin:/bin"}
	p.cmd.Stdin, p.cmd.Stderr = in, &limited{to: &p.text, left: 1 << 10}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's ^C is for us to hear, and would look like damage
	p.cmd.Cancel = func() error {
		_ = p.out.Close() // it may have left it to others, who live on
		return p.cmd.Process.Kill()
	}
	p.cmd.WaitDelay = time.Second
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// Read ends with an error where the program did.
func (p *program) Read(b []byte) (int, error) {
	if p.done {
		return 0, p.err
	}
	n, err := p.out.Read(b)
	p.some = p.some || n > 0
	if err != io.EOF {
		return n, err
	}
	p.done, p.err = true, io.EOF
	if e := p.cmd.Wait(); e != nil {
		p.err = fmt.Errorf("%w: %s: %w: %q", errProgram, p.cmd.Path, e, bytes.TrimSpace(p.text.Bytes()))
	} else if !p.some {
		p.err = fmt.Errorf("%w: %s put out nothing", errProgram, p.cmd.Path) // no tar is empty
	}
	return n, p.err
}

func (p *program) Close() error {
	if p.done {
		return nil
	}
	p.done, p.err = true, os.ErrClosed
	_ = p.cmd.Process.Kill()
	_ = p.out.Close()
	_ = p.cmd.Wait()
	return nil
}

// until is a stream that ends with ctx.
type until struct {
	ctx  context.Context
	from io.Reader
}

func (u until) Read(b []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.from.Read(b)
}

// limited keeps the first bytes, and drops the rest.
type limited struct {
	to   io.Writer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	n := min(len(b), l.left)
	l.left -= n
	_, err := l.to.Write(b[:n])
	return len(b), err
}

// bounded fails where a stream goes on for too long.
type bounded struct {
	from io.Reader
	left *int64 // of all streams of one image
}

func (b bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if *b.left -= int64(n); *b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
