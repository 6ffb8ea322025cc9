package loop

import (
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A name with many addresses where nobody answers takes no more descriptors than any other.
func TestDialTakesFewDescriptors(t *testing.T) {
	const waits = 4
	var list []netip.Addr
	port := blackhole(t, "127.1.1.1")
	for range waits {
		list = append(list, netip.MustParseAddr("127.1.1.1"))
	}
	x := started(t)
	var d Dialer
	ended := make(chan error, 1)
	open := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before, most := open(), 0
	x.Start(func() {
		_, err := x.Dial(&d, list, port, waits*headStart)
		ended <- err
	})
	for {
		select {
		case err := <-ended:
			if !errors.Is(err, unix.ETIMEDOUT) {
				t.Error(err)
			}
			if most-before > mostUnder {
				t.Errorf("%d descriptors", most-before)
			}
			return
		case <-time.After(headStart / 4): // only to look now and then
			most = max(most, open())
		}
	}
}
