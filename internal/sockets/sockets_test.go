package sockets

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
)

func TestASocketThatNobodyAnswersOnIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("d", 120), "s") // longer than the kernel takes
	l, err := Listen("unix:"+path, false)
	must.Do(t, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := Listen("unix:"+path, false); err == nil {
		t.Error("a second one")
	}
	abandon(l)
	l, err = Listen("unix:"+path, true)
	must.Do(t, err)
	l.Close()
	must.Do(t, os.WriteFile(path, nil, 0o600))
	if _, err := Listen("unix:"+path, false); err == nil {
		t.Error("in the place of a file")
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// Whoever only connects keeps nobody out: the place of a connection is safe while a request of somebody who may ask is under way.
func TestTheLongestIdleConnectionGivesWay(t *testing.T) {
	inner, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	must.Do(t, err)
	l := Bound(inner, 2, nil)
	defer l.Close()
	var mine, theirs []net.Conn
	connect := func() {
		c, err := net.Dial("unix", inner.Addr().String())
		must.Do(t, err)
		t.Cleanup(func() { c.Close() })
		accepted, err := l.Accept()
		must.Do(t, err)
		mine, theirs = append(mine, c), append(theirs, accepted)
	}
	closed := func(i int) bool {
		_ = mine[i].SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err := mine[i].Read(make([]byte, 1))
		if err != io.EOF && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		return err == io.EOF
	}
	connect()
	peer := &Peer{conn: theirs[0].(*conn)}
	peer.Serve()
	for i := range 3 { // each takes the place of the one before, never that of the first
		connect()
		if closed(0) || i > 0 && !closed(i) || closed(i+1) {
			t.Fatalf("after %d", i)
		}
	}
	State(theirs[0], http.StateIdle)
	connect()
	connect()
	if !closed(3) || !closed(0) {
		t.Error("what waits for its next request stays")
	}
}
