package output

import (
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/must"
)

// limit of patience for what must happen; never waited for when it does.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	linux.DefaultAction(unix.SIGTTIN) // whatever this was started with
	if role := os.Getenv("OUTPUT_TEST_ROLE"); role != "" {
		roles[role]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// roles are what this binary does as a process of its own.
var roles = map[string]func(){
	"fsize":    roleFsize,
	"session":  roleSession,
	"job":      roleJob,
	"bare-job": roleBareJob,
	"no-tee":   roleNoTee,
}

func helper(role string, env ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), append(env, "OUTPUT_TEST_ROLE="+role)...)
	c.Stderr = os.Stderr
	return c
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return b
}

func pump(t testing.TB) *Pump {
	t.Helper()
	p, err := New()
	must.Do(t, err)
	return p
}

// osPipe is a pipe of the caller's: blocking, as shells make them.
func osPipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	rfd, wfd, err := Pipe()
	must.Do(t, err)
	r, w = os.NewFile(uintptr(rfd), "r"), os.NewFile(uintptr(wfd), "w")
	keep(t, r, w)
	return r, w
}

// keep holds files open to the end of the test: only their numbers are in use.
func keep(t testing.TB, files ...*os.File) {
	t.Cleanup(func() {
		for _, f := range files {
			f.Close()
		}
	})
}

// output makes a stream and returns the target's end of it.
func output(t testing.TB, p *Pump, c Config) (*Stream, *os.File) {
	t.Helper()
	r, w, err := Pipe()
	must.Do(t, err)
	c.Src = r
	s, err := p.Output(c)
	must.Do(t, err)
	f := os.NewFile(uintptr(w), "target")
	keep(t, f)
	return s, f
}

// collect reads f to its end in the background.
func collect(f *os.File) <-chan []byte {
	c := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(f)
		c <- b
	}()
	return c
}

func within[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing after %v", what, patience)
		panic("unreachable")
	}
}

func ended(t testing.TB, p *Pump) {
	t.Helper()
	if err := p.End(patience); err != nil {
		t.Fatalf("End: %v", err)
	}
}

func tempFile(t testing.TB, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(name, content, 0o600))
	return name
}

func pollOne(fd int, events int16, d time.Duration) int16 {
	set := []unix.PollFd{{Fd: int32(fd), Events: events}}
	if n, _ := linux.Again(func() (int, error) { return unix.Poll(set, int(d/time.Millisecond)) }); n == 0 {
		return 0
	}
	return set[0].Revents
}
