package image

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
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
// program that undoes that.
func plain(from io.Reader) (io.ReadCloser, error) {
	r := bufio.NewReaderSize(from, 64<<10)
	head, _ := r.Peek(4)
	for _, c := range compressions {
		if bytes.HasPrefix(head, []byte(c.magic)) {
			return startProgram(c.program, r)
		}
	}
	return io.NopCloser(r), nil
}

// program is one that runs beside us.
type program struct {
	cmd  *exec.Cmd
	out  io.ReadCloser
	text bytes.Buffer
	done bool
}

func startProgram(name string, in io.Reader) (*program, error) {
	file, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("it is compressed, and there is no %s to undo that: install it, or decompress the image yourself", name)
	}
	p := &program{cmd: exec.Command(file, "-dc")}
	p.cmd.Env = []string{"PATH=/usr/bin:/bin"}
	p.cmd.Stdin, p.cmd.Stderr = in, &limited{to: &p.text, left: 1 << 10}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// Read ends with an error where the program did.
func (p *program) Read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	if err == io.EOF && !p.done {
		p.done = true
		if e := p.cmd.Wait(); e != nil {
			return n, fmt.Errorf("%s: %w: %q", p.cmd.Path, e, bytes.TrimSpace(p.text.Bytes()))
		}
	}
	return n, err
}

func (p *program) Close() error {
	if p.done {
		return nil
	}
	p.done = true
	_ = p.cmd.Process.Kill()
	_ = p.out.Close()
	_ = p.cmd.Wait()
	return nil
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

// errTooLarge is the bound on what an image can hold.
var errTooLarge = errors.New("holds more than an image may")

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
