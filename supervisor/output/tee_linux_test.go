package output

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// fill puts data into a pipe that has room for it.
func fill(t testing.TB, w *os.File, data []byte) {
	t.Helper()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, pipeSize); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
}

func TestStdinPipeStaysUnread(t *testing.T) {
	data := noise(200_000)
	for _, take := range []int{0, 1, 4095, 4096, 4097, 70_000, 199_999, 200_000} {
		for _, chunk := range []int{1, 1000, 4096, 1 << 20} {
			for _, open := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d by %d, writer open %v", take, chunk, open), func(t *testing.T) {
					r, w := osPipe(t)
					fill(t, w, data)
					if !open {
						w.Close()
					}
					p, target := stdin(t, int(r.Fd()))
					got := make([]byte, take)
					for rest := got; len(rest) > 0; {
						n, err := target.Read(rest[:min(chunk, len(rest))])
						must.Do(t, err)
						rest = rest[n:]
					}
					if !bytes.Equal(got, data[:take]) {
						t.Error("the target read something else")
					}
					ended(t, p)
					w.Close()
					if rest, err := io.ReadAll(r); err != nil || !bytes.Equal(rest, data[take:]) {
						t.Errorf("%d bytes are left to the next reader, want %d; %v", len(rest), len(data)-take, err)
					}
				})
			}
		}
	}
}

func TestStdinPipeServesOneAfterAnother(t *testing.T) {
	r, w := osPipe(t)
	data := noise(100_000)
	go func() { w.Write(data); w.Close() }()
	var got []byte
	for run := 0; len(got) < len(data); run++ {
		p, target := stdin(t, int(r.Fd()))
		b := make([]byte, min(run*37, len(data)-len(got)))
		if _, err := io.ReadFull(target, b); err != nil {
			t.Fatal(err)
		}
		got = append(got, b...)
		ended(t, p)
		target.Close()
	}
	if !bytes.Equal(got, data) {
		t.Error("not what was written")
	}
}

func TestStdinPipeCantBeWrittenByTheTarget(t *testing.T) {
	inject := func(fd int) error {
		w, err := reopen(fd, unix.O_WRONLY|unix.O_NONBLOCK)
		must.Do(t, err)
		defer unix.Close(w)
		_, err = unix.Write(w, []byte("INJECT"))
		return err
	}
	const read = 2
	next := func(r, w *os.File) string {
		w.WriteString("more")
		w.Close()
		b, _ := io.ReadAll(r)
		return string(b)
	}
	r, w := osPipe(t)
	w.WriteString("both")
	if err := inject(int(r.Fd())); err != nil { // the control: what holds the pipe itself can write there
		t.Fatal(err)
	}
	io.ReadFull(r, make([]byte, read))
	if got := next(r, w); got != "thINJECTmore" {
		t.Fatalf("bare: %q", got)
	}
	for _, when := range []string{"before it reads", "after"} {
		r, w := osPipe(t)
		w.WriteString("both")
		p, target := stdin(t, int(r.Fd()))
		if when == "after" {
			io.ReadFull(target, make([]byte, read))
		}
		err := inject(int(target.Fd()))
		if err != nil && err != unix.EAGAIN { // as a rule its own pipe is full
			t.Fatal(err)
		}
		ended(t, p)
		// Its own writing may hide from the count what it read, but adds nothing.
		if got := next(r, w); got != "thmore" && got != "bothmore" {
			t.Errorf("%s: the next reader gets %q", when, got)
		}
	}
}

func TestStdinPipeRoundTrip(t *testing.T) {
	data := noise(50 << 20)
	want := sha256.Sum256(data)
	for _, nonblock := range []bool{false, true} {
		for _, chunk := range []int{3000, 8192, 128 << 10} {
			t.Run(fmt.Sprintf("by %d, O_NONBLOCK %v", chunk, nonblock), func(t *testing.T) {
				r, w := osPipe(t)
				must.Do(t, unix.SetNonblock(int(r.Fd()), nonblock))
				before, _ := unix.FcntlInt(r.Fd(), unix.F_GETFL, 0)
				p, target := stdin(t, int(r.Fd()))
				go func() { w.Write(data); w.Close() }()
				sum := sha256.New()
				if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{target}, make([]byte, chunk)); err != nil {
					t.Fatal(err)
				}
				if [32]byte(sum.Sum(nil)) != want {
					t.Error("not what was written")
				}
				ended(t, p)
				if after, _ := unix.FcntlInt(r.Fd(), unix.F_GETFL, 0); after != before {
					t.Errorf("flags %#x became %#x", before, after)
				}
			})
		}
	}
}

func TestStdinPipeOfASlowWriter(t *testing.T) {
	r, w := osPipe(t)
	p, target := stdin(t, int(r.Fd()))
	lines := bufio.NewReader(target)
	for i := range 1000 {
		want := fmt.Sprintf("line %d\n", i)
		w.WriteString(want)
		if got := next(t, lines); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	w.Close()
	if b := within(t, collect(target), "end of file"); len(b) > 0 {
		t.Errorf("%q", b)
	}
	within(t, p.idle, "the pump's end")
	ended(t, p)
}

// TestStdinPipeNobodyReads: the writer has to wait where it has to without us.
func TestStdinPipeNobodyReads(t *testing.T) {
	room := func(relayed bool) (n int) {
		r, w := osPipe(t)
		unix.SetNonblock(int(w.Fd()), true)
		if relayed {
			p, _ := stdin(t, int(r.Fd()))
			defer ended(t, p)
		}
		for {
			m, err := unix.Write(int(w.Fd()), make([]byte, 1000))
			if err != nil {
				return n
			}
			n += m
		}
	}
	if bare, ours := room(false), room(true); bare != ours {
		t.Errorf("%d bytes can be written, %d without us", ours, bare)
	}
}

func TestStdinPipeWithoutTee(t *testing.T) {
	c := helper("no-tee")
	c.Stdin = bytes.NewReader(noise(1 << 20)) // a pipe
	out, err := c.Output()
	if want := fmt.Sprintf("relayed %x", sha256.Sum256(noise(1<<20))); string(out) != want || err != nil {
		t.Errorf("%s, %v, want %s", out, err, want)
	}
}

// roleNoTee relays a pipe where a filter refuses tee.
func roleNoTee() {
	refuse := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the system call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_TEE, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := filter(refuse); err != nil {
		panic(err)
	}
	p, _ := New()
	fd, err := p.Stdin(0)
	if err != nil {
		panic(err)
	}
	if _, teed := p.ins[0].(*Tee); !teed {
		fmt.Print("relayed ")
	}
	p.Start()
	sum := sha256.New()
	io.Copy(sum, os.NewFile(uintptr(fd), "stdin"))
	fmt.Printf("%x", sum.Sum(nil))
	p.End(0)
}

// filter is a seccomp filter for all threads of this process.
func filter(program []unix.SockFilter) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	f := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&f)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return errno
	}
	return nil
}

// rest drives a Tee by hand until it has nothing to do, and says in how many steps.
func rest(t *testing.T, tee *Tee) (steps int) {
	t.Helper()
	for ; steps < 100; steps++ {
		set, _ := tee.enter(nil)
		if len(set) == 0 {
			return steps
		}
		if n, err := unix.Poll(set, 0); n == 0 && err == nil {
			return steps
		}
		tee.leave(set)
	}
	t.Fatal("never at rest")
	return steps
}

// TestTeeComesToRest: whatever is in the pipe, whatever the target does and then stops
// doing, the pump comes to wait, without a clock.
func TestTeeComesToRest(t *testing.T) {
	writers := map[string]func(t *testing.T, w *os.File){
		"nothing":      func(*testing.T, *os.File) {},
		"a byte":       func(t *testing.T, w *os.File) { fill(t, w, noise(1)) },
		"three pages":  func(t *testing.T, w *os.File) { fill(t, w, noise(3*4096)) },
		"a lot":        func(t *testing.T, w *os.File) { fill(t, w, noise(700_001)) },
		"a lot, ended": func(t *testing.T, w *os.File) { fill(t, w, noise(700_001)); w.Close() },
		"from a file":  fromFile,
		"from a socket": func(t *testing.T, w *os.File) {
			fromSocket(t, w)
		},
	}
	read := func(n int) func(*testing.T, int) {
		return func(t *testing.T, target int) { unix.Read(target, make([]byte, n)) }
	}
	acts := map[string]func(t *testing.T, target int){
		"reads nothing": read(0),
		"reads a byte":  read(1),
		"reads a page":  read(4096),
		"reads 5000":    read(5000),
		"reads all":     read(1 << 20),
		"enlarges":      func(t *testing.T, target int) { unix.FcntlInt(uintptr(target), unix.F_SETPIPE_SZ, pipeSize) },
		"writes":        func(t *testing.T, target int) { write(t, target, 100) },
		"writes a lot":  func(t *testing.T, target int) { write(t, target, 300_000) },
		"reads, enlarges": func(t *testing.T, target int) {
			read(1<<20)(t, target)
			unix.FcntlInt(uintptr(target), unix.F_SETPIPE_SZ, pipeSize)
		},
	}
	for name, put := range writers {
		for act, do := range acts {
			t.Run(name+", "+act, func(t *testing.T) {
				r, w := osPipe(t)
				tr, tw, err := Pipe()
				must.Do(t, err)
				unix.SetNonblock(tr, true)
				defer unix.Close(tr)
				tee, err := newTee(int(r.Fd()), tr, tw)
				must.Do(t, err)
				defer tee.end()
				put(t, w)
				for range 12 { // long enough for the largest pipe
					if n := rest(t, tee); n > 10 {
						t.Errorf("%d steps", n)
					}
					do(t, tr)
				}
				if n := rest(t, tee); n > 10 {
					t.Errorf("%d steps", n)
				}
			})
		}
	}
}

func write(t *testing.T, target, n int) {
	w, err := reopen(target, unix.O_WRONLY|unix.O_NONBLOCK)
	if err == unix.ENXIO {
		return
	}
	must.Do(t, err)
	defer unix.Close(w)
	unix.Write(w, make([]byte, n))
}

// fromFile fills a pipe with pages of the page cache.
func fromFile(t *testing.T, w *os.File) {
	fill(t, w, nil)
	f, err := os.Open(tempFile(t, noise(300_000)))
	must.Do(t, err)
	defer f.Close()
	if n, err := splice(int(f.Fd()), int(w.Fd()), 300_000); n < 200_000 {
		t.Fatal(n, err)
	}
}

// fromSocket fills a pipe with buffers that are longer than a page.
func fromSocket(t *testing.T, w *os.File) {
	fill(t, w, nil)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	unix.SetNonblock(fds[1], true)
	unix.Write(fds[1], noise(150_000))
	if n, err := splice(fds[0], int(w.Fd()), 150_000); n < 32<<10 {
		t.Fatal(n, err)
	}
}
