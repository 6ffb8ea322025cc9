package output

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// destination is one kind of the caller's stdout: the descriptor, and what arrived there.
type destination struct {
	name string
	open func(t *testing.T) (w *os.File, got func() []byte)
}

func fileWith(flags int) func(t *testing.T) (*os.File, func() []byte) {
	return func(t *testing.T) (*os.File, func() []byte) {
		name := tempFile(t, nil)
		f, err := os.OpenFile(name, os.O_WRONLY|flags, 0)
		must.Do(t, err)
		keep(t, f)
		return f, func() []byte {
			b, err := os.ReadFile(name)
			must.Do(t, err)
			return b
		}
	}
}

func pipeDst(t *testing.T) (*os.File, func() []byte) {
	r, w := osPipe(t)
	c := collect(r)
	return w, func() []byte { w.Close(); return within(t, c, "reader") }
}

func nonblockingPipe(t *testing.T) (*os.File, func() []byte) {
	r, w := osPipe(t)
	must.Do(t, unix.SetNonblock(int(w.Fd()), true))
	unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096)
	c := collect(r)
	return w, func() []byte { w.Close(); return within(t, c, "reader") }
}

func socketDst(t *testing.T) (*os.File, func() []byte) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	r, w := os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	keep(t, r, w)
	c := collect(r)
	return w, func() []byte { w.Close(); return within(t, c, "reader") }
}

func rawTerminal(t *testing.T) (*os.File, func() []byte) {
	m, s, err := pty.Open()
	must.Do(t, err)
	tio, _ := unix.IoctlGetTermios(int(s.Fd()), unix.TCGETS)
	tio.Oflag &^= unix.OPOST
	must.Do(t, unix.IoctlSetTermios(int(s.Fd()), unix.TCSETS, tio))
	keep(t, m, s)
	c := collect(m)
	return s, func() []byte { s.Close(); return within(t, c, "terminal") }
}

var destinations = []destination{
	{"pipe", pipeDst},
	{"non-blocking pipe of one page", nonblockingPipe},
	{"file", fileWith(0)},
	{"file, append", fileWith(os.O_APPEND)},
	{"socket", socketDst},
	{"terminal", rawTerminal},
}

func TestBytesPassUnchanged(t *testing.T) {
	data := noise(5<<20 + 12345)
	for _, d := range destinations {
		for _, size := range []int{0, 1, 4095, bufSize, bufSize + 1, spliceMin, len(data)} {
			t.Run(fmt.Sprintf("%s/%d", d.name, size), func(t *testing.T) {
				w, got := d.open(t)
				p := pump(t)
				s, target := output(t, p, Config{Dst: int(w.Fd()), Limit: int64(size)})
				p.Start()
				if _, err := target.Write(data[:size]); err != nil {
					t.Fatal(err)
				}
				target.Close()
				ended(t, p)
				b := got()
				if sha256.Sum256(b) != sha256.Sum256(data[:size]) {
					t.Errorf("%d bytes arrived of %d, or others", len(b), size)
				}
				if s.Truncated() || s.Err() != nil || s.Bytes() != int64(size) {
					t.Errorf("truncated %v, err %v, bytes %d", s.Truncated(), s.Err(), s.Bytes())
				}
				if size > 0 && s.meter.last != data[size-1] {
					t.Errorf("the last byte is taken to be %#x", s.meter.last)
				}
			})
		}
	}
}

func TestLimitCrossed(t *testing.T) {
	data := noise(5 << 20)
	for _, d := range destinations {
		for _, limit := range []int{1, 1000, bufSize, 1<<20 + 7, len(data) - 1} {
			t.Run(d.name+"/"+strconv.Itoa(limit), func(t *testing.T) {
				data := bytes.Clone(data)
				data[limit-1] = 'x'
				w, got := d.open(t)
				p := pump(t)
				s, target := output(t, p, Config{Dst: int(w.Fd()), Limit: int64(limit)})
				p.Start()
				target.Write(data)
				target.Close()
				ended(t, p)
				mark := "\n[TRUNCATED]\n"
				if d.name == "terminal" {
					mark = ResetTerminal + "\r\n[TRUNCATED]\r\n"
				}
				if b := got(); !bytes.Equal(b, append(data[:limit:limit], mark...)) {
					t.Errorf("%d bytes arrived, ending in %q", len(b), b[max(0, len(b)-40):])
				}
				if !s.Truncated() || s.Bytes() != int64(len(data)) {
					t.Errorf("truncated %v, bytes %d", s.Truncated(), s.Bytes())
				}
			})
		}
	}
}

func TestCapture(t *testing.T) {
	for _, limit := range []int64{0, 3 << 20, 100_000} {
		data := noise(3 << 20)
		data[99_999] = '\n'
		p := pump(t)
		s, target := output(t, p, Config{Dst: -1, Limit: limit, Capture: true})
		p.Start()
		target.Write(data)
		target.Close()
		ended(t, p)
		want := data
		if limit == 100_000 {
			want = append(data[:limit:limit], "[TRUNCATED]\n"...)
		}
		if !bytes.Equal(s.Captured(), want) {
			t.Errorf("limit %d: captured %d bytes", limit, len(s.Captured()))
		}
	}
}

func TestTheLastOfWhatPassesIsKept(t *testing.T) {
	for _, writes := range [][]int{{}, {10}, {lastMax}, {lastMax - 1, 2}, {10, lastMax, 3}, {3 * lastMax}, {5, 3 * lastMax, 7}, {400, 400, 400, 400}} {
		for _, keeps := range []bool{true, false} {
			p := pump(t)
			r, w := osPipe(t)
			s, target := output(t, p, Config{Dst: int(w.Fd()), Last: keeps})
			p.Start()
			var all []byte
			for _, n := range writes {
				data := noise(n)
				all = append(all, data...)
				target.Write(data)
				if _, err := io.ReadFull(r, make([]byte, n)); err != nil { // so that each is read by itself
					t.Fatal(err)
				}
			}
			target.Close()
			ended(t, p)
			want := all[max(0, len(all)-lastMax):]
			if !keeps {
				want = nil
			}
			if !bytes.Equal(s.Last(), want) {
				t.Errorf("%v: kept %d bytes, want %d", writes, len(s.Last()), len(want))
			}
		}
	}
}

func TestTheWriterNeverBlocksOnceTruncated(t *testing.T) {
	_, w := osPipe(t) // nobody reads, and w is full
	unix.SetNonblock(int(w.Fd()), true)
	for err := error(nil); err == nil; _, err = unix.Write(int(w.Fd()), make([]byte, 4096)) {
	}
	unix.SetNonblock(int(w.Fd()), false)
	p := pump(t)
	s, target := output(t, p, Config{Dst: int(w.Fd()), Limit: 10})
	p.Start()
	if _, err := target.Write(make([]byte, 8<<20)); err != nil { // returns only if drained
		t.Fatal(err)
	}
	target.Close()
	if err := p.End(0); !errors.Is(err, ErrUndelivered) {
		t.Errorf("End with an unread mark: %v", err)
	}
	if s.Bytes() != 8<<20 {
		t.Errorf("counted %d", s.Bytes())
	}
}

func TestReadIsCalledBeforeTheBytesPass(t *testing.T) {
	r, w := osPipe(t)
	var there []int
	p := pump(t)
	_, target := output(t, p, Config{Dst: int(w.Fd()), Read: func() {
		n, _ := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		there = append(there, n)
	}})
	p.Start()
	if _, err := target.WriteString("error"); err != nil {
		t.Fatal(err)
	}
	target.Close()
	must.Do(t, p.End(-1))
	if len(there) != 1 || there[0] != 0 {
		t.Errorf("told with %v bytes passed on, want once with none", there)
	}
}

func TestAReaderThatLeavesEndsTheWriter(t *testing.T) {
	for _, when := range []string{"before a write", "while the target is silent"} {
		t.Run(when, func(t *testing.T) {
			r, w := osPipe(t)
			p := pump(t)
			s, target := output(t, p, Config{Dst: int(w.Fd())})
			p.Start()
			target.WriteString("first\n")
			io.ReadFull(r, make([]byte, 6))
			r.Close()
			if when == "before a write" {
				for err := error(nil); err == nil; _, err = target.WriteString("y\n") {
				}
			}
			if ev := pollOne(int(target.Fd()), 0, patience); ev&unix.POLLERR == 0 {
				t.Fatal("the target's pipe stays open")
			}
			if _, err := target.WriteString("more"); !errors.Is(err, unix.EPIPE) {
				t.Errorf("write: %v, want EPIPE", err)
			}
			ended(t, p)
			if s.Err() != unix.EPIPE {
				t.Errorf("remembered %v", s.Err())
			}
		})
	}
}

func TestANamedFIFOMayChangeItsReader(t *testing.T) {
	name := t.TempDir() + "/fifo"
	must.Do(t, unix.Mkfifo(name, 0o600))
	rd := func() *os.File {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		must.Do(t, err)
		return os.NewFile(uintptr(fd), name)
	}
	first := rd()
	w, err := os.OpenFile(name, os.O_WRONLY, 0)
	must.Do(t, err)
	keep(t, w)
	p := pump(t)
	s, target := output(t, p, Config{Dst: int(w.Fd())})
	p.Start()
	target.WriteString("1")
	io.ReadFull(first, make([]byte, 1))
	first.Close()
	second := rd()
	target.WriteString("2")
	b := make([]byte, 1)
	if _, err := io.ReadFull(second, b); err != nil || b[0] != '2' {
		t.Errorf("second reader: %q, %v", b, err)
	}
	target.Close()
	ended(t, p)
	if s.Err() != nil {
		t.Error(s.Err())
	}
}

func TestFailedDestinationsAreDrained(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must.Do(t, err)
	readOnly, err := os.Open("/dev/null")
	must.Do(t, err)
	keep(t, full, readOnly)
	for _, c := range []struct {
		name string
		fd   int
		want error
	}{
		{"full disk", int(full.Fd()), unix.ENOSPC},
		{"closed", 1 << 20, unix.EBADF},
		{"open for reading only", int(readOnly.Fd()), unix.EBADF},
		{"none", -1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := pump(t)
			s, target := output(t, p, Config{Dst: c.fd})
			p.Start()
			if _, err := target.Write(make([]byte, 4<<20)); err != nil {
				t.Fatal(err)
			}
			target.Close()
			ended(t, p)
			if !errors.Is(s.Err(), c.want) || s.Bytes() != 4<<20 {
				t.Errorf("err %v, bytes %d; want %v", s.Err(), s.Bytes(), c.want)
			}
		})
	}
}

func TestTheCallersDescriptorIsLeftAsItWas(t *testing.T) {
	for _, d := range destinations {
		t.Run(d.name, func(t *testing.T) {
			w, got := d.open(t)
			before, _ := unix.FcntlInt(w.Fd(), unix.F_GETFL, 0)
			p := pump(t)
			_, target := output(t, p, Config{Dst: int(w.Fd())})
			p.Start()
			target.WriteString("x")
			during, _ := unix.FcntlInt(w.Fd(), unix.F_GETFL, 0)
			target.Close()
			ended(t, p)
			after, err := unix.FcntlInt(w.Fd(), unix.F_GETFL, 0)
			if err != nil || before != during || before != after {
				t.Errorf("flags %#x, %#x, %#x, %v", before, during, after, err)
			}
			got()
		})
	}
}

func TestABlockingPipeThatCannotBeReopened(t *testing.T) {
	_, w := osPipe(t)
	d := &dest{fd: int(w.Fd()), chunk: pipeChunk}
	n := 0
	for {
		m, err := d.write(make([]byte, 1<<20))
		n += m
		if err == unix.EAGAIN {
			break
		}
		must.Do(t, err)
	}
	if n != 64<<10 {
		t.Errorf("%d bytes went into a pipe of 64 KiB", n)
	}
}

type recorder struct {
	inside bool
	got    []byte
}

func (g *recorder) Begin()       { g.inside = true }
func (g *recorder) End(p []byte) { g.inside = false; g.got = append(g.got, p...) }

func TestGuardSeesWhatIsWritten(t *testing.T) {
	w, got := rawTerminal(t)
	p := pump(t)
	g := new(recorder)
	_, target := output(t, p, Config{Dst: int(w.Fd()), Guard: g, Limit: 100_000})
	p.Start()
	target.Write(noise(200_000))
	target.Close()
	ended(t, p)
	if b := got(); !bytes.Equal(b, g.got) || g.inside {
		t.Errorf("the guard saw %d bytes, %d arrived", len(g.got), len(b))
	}
}

// roleFsize writes past its own file size limit, which would kill the process.
func roleFsize() {
	unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1000, Max: 1000})
	p, _ := New()
	r, w, _ := Pipe()
	s, err := p.Output(Config{Src: r, Dst: 1})
	if err != nil {
		panic(err)
	}
	p.Start()
	unix.Write(w, make([]byte, 5000))
	unix.Close(w)
	p.End(patience)
	if s.Err() != unix.EFBIG || s.Bytes() != 5000 {
		os.Exit(3)
	}
	os.Exit(7)
}

func TestTheSupervisorsOwnFileSizeLimitIsAnErrorAndNoDeath(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	must.Do(t, err)
	c := helper("fsize")
	c.Stdout = f
	c.Run()
	if c.ProcessState.ExitCode() != 7 {
		t.Errorf("ended with %v", c.ProcessState)
	}
}
