package supervisor

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/must"
)

// TestAChildNeverWaitsToBeHeard: the loop may be sending to it just then, and then neither would go on.
func TestAChildNeverWaitsToBeHeard(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	const many = 5000 // more than fits into the socket
	events := listen(pair[0])
	sent := make(chan error, 1)
	go func() {
		for i := range uint32(many) {
			if err := linux.SendFrame(pair[1], handoff.Encode(&handoff.Ping{ID: i})); err != nil {
				sent <- err
				return
			}
		}
		sent <- unix.Close(pair[1])
	}()
	select {
	case err := <-sent:
		must.Do(t, err)
	case <-time.After(30 * time.Second):
		t.Fatal("the child waits until somebody hears")
	}
	var heard uint32
	for over := false; !over; {
		<-events.more
		var some []event
		some, over = events.take()
		for _, e := range some {
			if p, ok := e.frame.(*handoff.Ping); !ok || p.ID != heard {
				t.Fatalf("frame %d is %+v", heard, e.frame)
			}
			heard++
		}
	}
	if heard != many {
		t.Errorf("%d frames of %d were heard", heard, many)
	}
	_ = unix.Close(pair[0])
}
