package loop

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A read stops before a byte that was sent as urgent, whatever lies behind: that there
// was less than asked for doesn't say then that nothing is left.
func TestUrgentBytesHoldNothingUp(t *testing.T) {
	x := started(t)
	heard := make(chan string, 1)
	l, address := x.listen(func(c *Conn) {
		x.Go(func() {
			defer c.Close()
			b, all := make([]byte, 64), ""
			for len(all) < len("beforeUafter") {
				n, err := c.Read(b)
				if err != nil {
					t.Error(err)
					break
				}
				if all += string(b[:n]); n < len(b) {
					c.Drained()
				}
			}
			heard <- all
		})
	})
	defer l.Close()
	// All of it is there before the loop looks.
	looks := make(chan struct{})
	x.Post(func() { <-looks })
	c, err := net.Dial("tcp", address)
	must(t, err)
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	must(t, err)
	say := func(text string, flags int) {
		if err := raw.Control(func(fd uintptr) {
			if err := unix.Send(int(fd), []byte(text), flags); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Error(err)
		}
	}
	say("before", 0)
	say("U", unix.MSG_OOB)
	say("after", 0)
	close(looks)
	if got := <-heard; got != "beforeUafter" {
		t.Errorf("%q", got)
	}
}
