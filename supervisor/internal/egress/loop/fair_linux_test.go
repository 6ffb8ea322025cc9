package loop

import (
	"errors"
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// turns is a task that counts its turns until it is told to end.
func (x running) turns() (count *int, end func()) {
	n, over, done := 0, false, make(chan struct{})
	x.Start(func() {
		defer close(done)
		for !over {
			n++
			x.Yield()
		}
	})
	return &n, func() {
		x.Post(func() { over = true })
		<-done
	}
}

// Who always finds something to read, or room to write, leaves others their turn.
func TestWhoNeverWaitsLeavesOthersTheirTurn(t *testing.T) {
	x := started(t)
	for _, writes := range []bool{false, true} {
		c, other := x.ends()
		text := make([]byte, 64<<10)
		if !writes {
			if _, err := other.Write(text); err != nil {
				t.Fatal(err)
			}
		}
		count, end := x.turns()
		var first, last int
		x.in(func() {
			first = *count
			for range 100 {
				var err error
				if writes {
					_, err = c.Write(text[:64])
				} else {
					_, err = io.ReadFull(c, text[:64])
				}
				if err != nil {
					t.Error(err)
				}
			}
			last = *count
		})
		end()
		if got := last - first; got < 5 {
			t.Errorf("writes %v: others had %d turns", writes, got)
		}
	}
}

// However many are there to be accepted, who was accepted first doesn't wait for the last.
func TestAcceptingLeavesOthersTheirTurn(t *testing.T) {
	const all = 500
	x := started(t)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, all)))
	at, err := unix.Getsockname(fd)
	must(t, err)
	for range all {
		c, err := net.Dial("tcp", AddrPort(at).String())
		must(t, err)
		defer c.Close()
	}
	open, most, served := 0, 0, make(chan struct{}, all)
	l, err := x.Listen(fd, func(c *Conn) {
		open++
		most = max(most, open)
		x.Go(func() {
			c.Close()
			open--
			served <- struct{}{}
		})
	})
	must(t, err)
	for range all {
		<-served
	}
	l.Close()
	if most > all/4 {
		t.Errorf("%d are open before any is served", most)
	}
}
