package supervisor

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

func TestWhatTheCallerDidNotTake(t *testing.T) {
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		must.Do(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	r, broken, err := os.Pipe()
	must.Do(t, err)
	r.Close()
	t.Cleanup(func() { broken.Close() })
	full, null := open("/dev/full"), open("/dev/null")
	for _, c := range []struct {
		name           string
		stdout, stderr *os.File
		text           string
		want           map[string]error
	}{
		{"all is well", null, null, "x", map[string]error{}},
		{"no room", full, null, "x", map[string]error{"stdout": unix.ENOSPC}},
		{"no room for either", full, full, "x", map[string]error{"stdout": unix.ENOSPC, "stderr": unix.ENOSPC}},
		{"no room, and nothing to write", full, full, "", map[string]error{}},
		{"nobody reads", broken, full, "x", map[string]error{"stderr": unix.ENOSPC}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := map[string]error{}
			s, err := openStreams([3]bool{}, &Options{
				Stdin: -1, Stdout: int(c.stdout.Fd()), Stderr: int(c.stderr.Fd()),
				Undelivered: func(stream string, err error) { got[stream] = errors.Unwrap(err) },
			})
			must.Do(t, err)
			for fd := 1; fd <= 2; fd++ {
				if _, err := unix.Write(s.target[fd], []byte(c.text)); err != nil {
					t.Fatal(err)
				}
			}
			must.Do(t, s.begin(-1))
			s.handedOver()
			s.end(-1)
			if fmt.Sprint(got) != fmt.Sprint(c.want) || !errors.Is(got["stdout"], c.want["stdout"]) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestStreamsThatNeverBeganAreClosed(t *testing.T) {
	r, w, err := os.Pipe()
	must.Do(t, err)
	defer r.Close()
	defer w.Close()
	w.WriteString("for another")
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		must.Do(t, err)
		return len(names)
	}
	before := count()
	for range 10 {
		s, err := openStreams([3]bool{}, &Options{Stdin: int(r.Fd()), Stdout: int(w.Fd()), Stderr: -1})
		must.Do(t, err)
		s.handedOver()
		s.end(0)
	}
	if n := count() - before; n > 0 {
		t.Errorf("%d descriptors more", n)
	}
	b := make([]byte, 20)
	if n, err := r.Read(b); string(b[:n]) != "for another" {
		t.Errorf("%q, %v", b[:n], err)
	}
}
