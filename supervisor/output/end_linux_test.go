package output

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

func TestEndDoesNotWaitForAStuckDestination(t *testing.T) {
	_, w := osPipe(t)
	m, s, err := pty.Open()
	must.Do(t, err)
	keep(t, m, s)
	for _, dst := range []*os.File{w, s} {
		p := pump(t)
		_, target := output(t, p, Config{Dst: int(dst.Fd())})
		p.Start()
		// More than fits anywhere: blocks for good, until the pump lets go.
		wrote := make(chan error, 1)
		go func() { _, err := target.Write(make([]byte, 8<<20)); wrote <- err }()
		if err := p.End(50 * time.Millisecond); !errors.Is(err, ErrUndelivered) {
			t.Errorf("End: %v", err)
		}
		within(t, p.idle, "the pump's end")
		if err := within(t, wrote, "writer"); !errors.Is(err, unix.EPIPE) {
			t.Errorf("the writer sees %v", err)
		}
	}
}

func TestNothingIsLeftOpen(t *testing.T) {
	open := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		must.Do(t, err)
		return len(names)
	}
	file, err := os.Open(tempFile(t, noise(1000)))
	must.Do(t, err)
	keep(t, file)
	r, w := osPipe(t)
	runtime.GC() // what other tests left
	before := open()
	const runs = 20
	for i := range runs {
		p := pump(t)
		in, err := p.Stdin([]int{int(file.Fd()), int(r.Fd())}[i%2])
		must.Do(t, err)
		src, target, _ := Pipe()
		if _, err := p.Output(Config{Src: src, Dst: int(w.Fd())}); err != nil {
			t.Fatal(err)
		}
		p.Start()
		unix.Close(in)
		unix.Close(target)
		ended(t, p)
	}
	if n := open() - before; n > 0 {
		t.Errorf("%d descriptors more after %d runs", n, runs)
	}
}

func TestEndWithoutDeadlineWaitsForASlowReader(t *testing.T) {
	r, w := osPipe(t)
	p := pump(t)
	_, target := output(t, p, Config{Dst: int(w.Fd())})
	p.Start()
	data := noise(3 << 20)
	go func() { target.Write(data); target.Close() }()
	over := make(chan error, 1)
	go func() { over <- p.End(-1) }()
	select {
	case err := <-over:
		t.Fatalf("End returned %v before anything was read", err)
	default:
	}
	got := make([]byte, len(data))
	if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read: %v", err)
	}
	if err := within(t, over, "End"); err != nil {
		t.Error(err)
	}
}

func TestALaterEndHasLessPatience(t *testing.T) {
	_, w := osPipe(t)
	p := pump(t)
	_, target := output(t, p, Config{Dst: int(w.Fd())})
	p.Start()
	go target.Write(make([]byte, 1<<20))
	over := make(chan error, 1)
	go func() { over <- p.End(-1) }()
	p.End(0)
	if err := within(t, over, "first End"); !errors.Is(err, ErrUndelivered) {
		t.Error(err)
	}
}
