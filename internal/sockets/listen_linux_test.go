package sockets

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
)

// listens is in the environment of a process that listens where it says, and ends: a child of its has the socket as long as its input lasts.
const listens = "CONFINE_TEST_LISTENS"

func init() {
	path := os.Getenv(listens)
	if path == "" {
		return
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	file, err := l.(*net.UnixListener).File()
	if err != nil {
		panic(err)
	}
	c := exec.Command("cat")
	c.Stdin, c.ExtraFiles = os.Stdin, []*os.File{file}
	if err := c.Start(); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// A server that was killed while it started a process has a socket that nobody answers on, and which is there for a moment.
func TestTheSocketOfWhoWasKilledIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	in, input, err := os.Pipe()
	must.Do(t, err)
	c := exec.Command("/proc/self/exe")
	c.Env, c.Stdin, c.Stderr = append(os.Environ(), listens+"="+path), in, os.Stderr
	must.Do(t, c.Run())
	_ = in.Close()
	if _, err := net.Dial("unix", path); err != nil {
		t.Fatalf("its child hasn't got the socket: %v", err)
	}
	time.AfterFunc(30*time.Millisecond, func() { _ = input.Close() })
	l, err := Listen("unix:"+path, false)
	must.Do(t, err)
	_ = l.Close()
}
