package loop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// running is a loop that a test has.
type running struct {
	*Loop
	*testing.T
}

func started(t *testing.T) running {
	t.Helper()
	l, err := New()
	must(t, err)
	t.Cleanup(l.Close)
	return running{l, t}
}

// in runs f as a task, and waits for it.
func (x running) in(f func()) {
	done := make(chan struct{})
	x.Start(func() {
		defer close(done)
		f()
	})
	<-done
}

// ends is a connection between a task's end and the test's.
func (x running) ends() (*Conn, net.Conn) {
	x.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		x.Fatal(err)
	}
	f := os.NewFile(uintptr(pair[1]), "other end")
	defer f.Close()
	other, err := net.FileConn(f)
	if err != nil {
		x.Fatal(err)
	}
	x.Cleanup(func() { other.Close() })
	var c *Conn
	x.in(func() { c, err = x.Adopt(pair[0]) })
	if err != nil {
		x.Fatal(err)
	}
	return c, other
}

// listen serves on a port of loopback.
func (x running) listen(serve func(*Conn)) (l *Listener, address string) {
	x.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		x.Fatal(err)
	}
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 1024)); err != nil {
		x.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		x.Fatal(err)
	}
	if l, err = x.Listen(fd, serve); err != nil {
		x.Fatal(err)
	}
	return l, AddrPort(at).String()
}

func TestManyConnectionsAtOnce(t *testing.T) {
	x := started(t)
	var served sync.WaitGroup
	l, address := x.listen(func(c *Conn) {
		served.Add(1)
		x.Go(func() {
			defer served.Done()
			_, _ = io.Copy(c, struct{ io.Reader }{c})
			c.Close()
		})
	})
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			say := text[:1+i*len(text)/100]
			go func() {
				_, _ = c.Write(say)
				_ = c.(*net.TCPConn).CloseWrite()
			}()
			if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, say) {
				t.Errorf("%d of %d bytes come back, %v", len(got), len(say), err)
			}
		})
	}
	all.Wait()
	l.Close()
	served.Wait()
	if _, err := net.Dial("tcp", address); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("a closed listener: %v", err)
	}
}

// A task that waits holds nobody up, and tasks have their turns in order.
func TestTurns(t *testing.T) {
	x := started(t)
	var order []string
	release := make(chan struct{})
	done := make(chan struct{})
	x.Post(func() {
		x.Go(func() {
			x.Do(func() { <-release })
			order = append(order, "aside")
			close(done)
		})
		for i := range 2 {
			x.Go(func() {
				for k := range 2 {
					order = append(order, fmt.Sprint(i, k))
					x.Yield()
				}
			})
		}
		x.Go(func() {
			x.Sleep(time.Millisecond)
			close(release)
		})
	})
	<-done
	if want := []string{"0 0", "1 0", "0 1", "1 1", "aside"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
}

func TestDeadlines(t *testing.T) {
	x := started(t)
	c, other := x.ends()
	b := make([]byte, 8)
	x.in(func() {
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if n, err := c.Read(b); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d, %v", n, err)
		}
		c.SetReadDeadline(time.Time{})
		c.SetWriteDeadline(time.Now().Add(time.Millisecond))
		n, err := c.Write(make([]byte, 8<<20)) // more than the other end keeps
		if n == 8<<20 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d written, %v", n, err)
		}
	})
	if _, err := other.Write([]byte("late")); err != nil {
		t.Fatal(err)
	}
	x.in(func() {
		if n, err := c.Read(b); string(b[:n]) != "late" || err != nil {
			t.Errorf("%q, %v", b[:n], err)
		}
	})
}

// Whoever waits for a connection hears that it is closed, whichever way it waits.
func TestCloseWakes(t *testing.T) {
	x := started(t)
	for _, writes := range []bool{false, true} {
		c, _ := x.ends()
		ended := make(chan error, 1)
		x.Start(func() {
			var err error
			for big := make([]byte, 1<<20); err == nil; {
				if writes {
					_, err = c.Write(big)
				} else {
					_, err = c.Read(big)
				}
			}
			ended <- err
		})
		x.Post(c.Reset)
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("writes %v: %v", writes, err)
		}
	}
}

func TestEndsOfConnections(t *testing.T) {
	x := started(t)
	c, other := x.ends()
	_ = other.(*net.UnixConn).CloseWrite()
	x.in(func() {
		if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("their end: %d, %v", n, err)
		}
		if n, err := c.Write([]byte("still")); n != 5 || err != nil {
			t.Errorf("ours goes on: %d, %v", n, err)
		}
		c.CloseWrite()
	})
	if got, err := io.ReadAll(other); string(got) != "still" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	other.Close()
	x.in(func() {
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("written to nobody")
		}
		c.Close()
		c.Close()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// Much is posted from everywhere while the loop falls asleep and wakes.
func TestNothingPostedIsLost(t *testing.T) {
	x := started(t)
	const each, from = 2000, 4
	n := 0
	var all sync.WaitGroup
	for range from {
		all.Go(func() {
			for i := range each {
				x.Post(func() { n++ })
				if i%100 == 0 {
					x.in(func() {}) // after this it is often asleep
				}
			}
		})
	}
	all.Wait()
	x.in(func() {
		if n != each*from {
			t.Errorf("%d of %d", n, each*from)
		}
	})
}

// Nobody may wait for a listener that never listens.
func TestWhatCannotBeListenedTo(t *testing.T) {
	x := started(t)
	file := func() (fd int) {
		fd, err := unix.MemfdCreate("no socket", unix.MFD_CLOEXEC)
		must(t, err)
		return fd
	}
	serve := func(*Conn) { t.Error("served") }
	if _, err := x.Listen(file(), serve); !errors.Is(err, unix.EPERM) {
		t.Errorf("a file: %v", err)
	}
	over, err := New()
	must(t, err)
	over.Close()
	if _, err := over.Listen(file(), serve); err != net.ErrClosed {
		t.Errorf("after the end: %v", err)
	}
}

func TestAfterTheEnd(t *testing.T) {
	l, err := New()
	must(t, err)
	l.Close()
	if l.Post(func() { t.Error("called") }) || l.Start(func() { t.Error("started") }) {
		t.Error("it still takes something")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
