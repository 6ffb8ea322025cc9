package tunnel

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/confine-run/confine/internal/jobs/jobstest"
	"github.com/confine-run/confine/internal/must"
)

// TestAConnectionOutlivesItsServers: of a cluster of three, the servers that both ends are connected to are killed while bytes go through.
func TestAConnectionOutlivesItsServers(t *testing.T) {
	t.Parallel()
	all := jobstest.Cluster(t, 3)
	var urls []string
	for _, p := range all {
		urls = append(urls, "nats://127.0.0.1:"+strconv.Itoa(p.Port))
	}
	kill := func(of *nats.Conn) {
		url := of.ConnectedUrl()
		for _, p := range all {
			if strings.HasSuffix(url, ":"+strconv.Itoa(p.Port)) {
				p.Signal(syscall.SIGKILL)
			}
		}
	}
	var here, there *nats.Conn
	for _, nc := range []**nats.Conn{&here, &there} {
		var err error
		if *nc, err = nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.RetryOnFailedConnect(true)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*nc).Close)
		for !(*nc).IsConnected() {
			time.Sleep(5 * time.Millisecond)
		}
	}
	slow := usual
	slow.gone, slow.again = 20*time.Second, 200*time.Millisecond
	l, err := listen(there, "test.*", slow)
	must.Do(t, err)
	var a *Conn
	for a == nil { // until the servers know of each other
		a, _ = dial(t.Context(), here, "test.x", slow)
	}
	b, err := l.Accept()
	must.Do(t, err)
	go func() {
		for i := range 40 {
			switch i {
			case 10:
				kill(here)
			case 25:
				kill(there)
			}
			_, _ = a.Write(bytes.Repeat([]byte{byte(i)}, 64<<10))
		}
		_ = a.Close()
	}()
	got, err := io.ReadAll(b)
	if err != nil || len(got) != 40*64<<10 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	for i, c := range got {
		if int(c) != i>>16 {
			t.Fatalf("byte %d is %d", i, c)
		}
	}
}
