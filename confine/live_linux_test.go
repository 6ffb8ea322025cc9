package confine_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// answering is a server on loopback that counts who comes, and says hello.
func answering(t *testing.T) (port int, came *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must.Do(t, err)
	t.Cleanup(func() { _ = l.Close() })
	came = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			_, _ = c.Write([]byte("hello\n"))
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 1)) // until it is cut
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, came
}

func init() {
	if to := os.Getenv("CONFINE_TEST_VISIT"); to != "" {
		visitor(to)
		os.Exit(0)
	}
}

// visitor connects to a server, says what it hears, and that it was cut off.
func visitor(address string) {
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		fmt.Println("refused:", err)
		os.Exit(3)
	}
	b := make([]byte, 6)
	n, _ := io.ReadFull(c, b)
	fmt.Print(string(b[:n]))
	if os.Getenv("CONFINE_TEST_LEAVE") != "" {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		fmt.Println("cut:", err)
	}
}

// TestTheNetworkOfASandboxIsChanged while a connection is open, and back again.
func TestTheNetworkOfASandboxIsChanged(t *testing.T) {
	port, came := answering(t)
	policy := confine.Default()
	policy.AllowPartial = []string{"all"}
	self, err := os.Executable()
	must.Do(t, err)
	policy.Filesystem.AllowRead = append(policy.Filesystem.AllowRead, self)
	policy.Network.Allow = []string{fmt.Sprintf("localhost:%d", port)}
	box, err := confine.Open(t.Context(), policy, confine.WithDir(t.TempDir()))
	must.Do(t, err)
	defer box.Close()
	visit := []string{"CONFINE_TEST_VISIT=" + fmt.Sprintf("127.0.0.1:%d", port)}
	var out lockedBuffer
	c := box.Command(self)
	c.Env, c.Stdout = visit, &out
	must.Do(t, c.Start())
	for end := time.Now().Add(20 * time.Second); !strings.Contains(out.String(), "hello"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it doesn't connect: %q", out.String())
		}
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		u, err := c.Process.Usage() // nothing as long as it is being started, and its output may be here before that is known
		if err == nil && u.Tasks >= 1 && u.Memory >= 1<<20 {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("it uses %+v, %v", u, err)
		}
	}
	none := policy.Network
	none.Allow = nil
	must.Do(t, box.Network(t.Context(), &none))
	r, _ := c.Wait()
	if got := out.String(); !strings.Contains(got, "cut") {
		t.Errorf("it goes on: %q, %s", got, r.Reason)
	}
	before := came.Load()
	again := box.Command(self)
	again.Env = visit
	if text, _, _ := again.Output(); strings.Contains(string(text), "hello") || came.Load() != before {
		t.Errorf("it is reached: %q", text)
	}
	other := policy.Network
	other.Allow = []string{"localhost:1"}
	var usage *confine.UsageError
	if err := box.Network(t.Context(), &other); !errors.As(err, &usage) || usage.Hint == "" {
		t.Errorf("a port that was none of the caller's: %v", err)
	}
	must.Do(t, box.Network(t.Context(), &policy.Network))
	back := box.Command(self)
	back.Env = append(visit, "CONFINE_TEST_LEAVE=yes")
	if text, _, _ := back.Output(); !strings.Contains(string(text), "hello") {
		t.Errorf("it isn't reached again: %q", text)
	}
	b, err := box.Close()
	if err != nil || b.Network == nil || b.PolicyDigest != policy.Digest() {
		t.Fatalf("%+v, %v", b, err)
	}
	verdicts := map[string]bool{}
	for _, a := range b.Network.Attempts {
		verdicts[a.Verdict] = true
	}
	if !verdicts[status.AttemptAllowed] || !verdicts[status.AttemptBlocked] {
		t.Errorf("the report has %+v", b.Network.Attempts)
	}
}

// TestProcessesAreNotGivenWhatTheirNeighboursUsed: neither in reports, nor while they run.
func TestProcessesAreNotGivenWhatTheirNeighboursUsed(t *testing.T) {
	policy := confine.Default()
	policy.AllowPartial = []string{"all"}
	box, err := confine.Open(t.Context(), policy, confine.WithDir(t.TempDir()))
	must.Do(t, err)
	defer box.Close()
	busy := box.Command("sh", "-c", "while :; do :; done")
	must.Do(t, busy.Start())
	for u := (confine.Usage{}); u.CPU < 300*time.Millisecond; time.Sleep(20 * time.Millisecond) {
		if u, err = busy.Process.Usage(); err != nil {
			t.Fatal(err)
		}
	}
	quiet, err := box.Command("true").Run()
	if err != nil || quiet.Usage.CPUMS > 100 || quiet.Usage.TasksPeak != 1 || quiet.Network != nil {
		t.Errorf("%+v, %v", quiet.Usage, err)
	}
	all, err := box.Usage()
	if err != nil || all.CPU < 300*time.Millisecond {
		t.Errorf("all of them use %+v, %v", all, err)
	}
	b, err := box.Close() // what is killed with it has used what it has
	if err != nil || b.Usage.CPUMS < 300 {
		t.Errorf("%+v, %v", b.Usage, err)
	}
	if r, _ := busy.Wait(); r.Usage.CPUMS < 300 || r.Usage.Sources["cpu_ms"] == "" {
		t.Errorf("%+v", r.Usage)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestASandboxIsAskedAndChangedFromEverywhere, while processes come and go, and while it is closed.
func TestASandboxIsAskedAndChangedFromEverywhere(t *testing.T) {
	policy := confine.Default()
	policy.AllowPartial = []string{"all"}
	policy.Network.Allow, policy.Network.Deny = []string{"*"}, []string{"*"}
	box, err := confine.Open(t.Context(), policy, confine.WithDir(t.TempDir()))
	must.Do(t, err)
	stop := make(chan struct{})
	var all sync.WaitGroup
	again := func(do func(i int)) {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					do(i)
				}
			}
		})
	}
	var asked, ran, changed atomic.Int64
	for range 2 {
		again(func(int) {
			c := box.Command("sh", "-c", "sleep 0.02 & exit 0")
			if c.Start() != nil {
				return
			}
			if u, err := c.Process.Usage(); err == nil && (u.CPU < 0 || u.Tasks < 0) {
				t.Errorf("%+v", u)
			}
			if r, err := c.Wait(); err == nil && r.Usage.CPUMS < 1000 {
				ran.Add(1)
			}
		})
		again(func(int) {
			if _, err := box.Usage(); err == nil {
				asked.Add(1)
			}
		})
	}
	again(func(i int) {
		n := policy.Network
		n.Allow = []string{fmt.Sprintf("%d.example", i)}
		if box.Network(t.Context(), &n) == nil {
			changed.Add(1)
		}
	})
	time.Sleep(time.Second)
	if _, err := box.Close(); err != nil {
		t.Error(err)
	}
	time.Sleep(20 * time.Millisecond)
	close(stop)
	all.Wait()
	if asked.Load() == 0 || ran.Load() == 0 || changed.Load() == 0 {
		t.Errorf("%d answers, %d processes, %d changes", asked.Load(), ran.Load(), changed.Load())
	}
	if _, err := box.Usage(); err == nil {
		t.Error("what is closed uses something")
	}
}
