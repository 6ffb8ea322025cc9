package confine_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/status"
)

func TestRunGivesBytesAsTheyWere(t *testing.T) {
	policy := confine.Default()
	r, err := confine.Run(context.Background(), &policy, "printf", `\377\001`)
	if err != nil {
		t.Fatal(err)
	}
	if got := confine.Stdout(r); !bytes.Equal(got, []byte{0xff, 1}) || len(confine.Stderr(r)) != 0 {
		t.Errorf("%q, %q", got, confine.Stderr(r))
	}
}

func TestAPolicyThatIsNotValidStartsNothing(t *testing.T) {
	for _, spoil := range []func(*confine.Policy){
		func(p *confine.Policy) { p.CPUTime = -1 },
		func(p *confine.Policy) { p.MaxFiles = -1 },
		func(p *confine.Policy) { p.Filesystem.AllowRead = []string{"relative"} },
	} {
		p := confine.Default()
		spoil(&p)
		r, err := confine.Run(t.Context(), &p, "true")
		var usage *confine.UsageError
		if !errors.As(err, &usage) || r != nil {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func TestKillLeavesNothing(t *testing.T) {
	policy := confine.Default()
	run, err := confine.Start(context.Background(), &policy, &confine.Command{Argv: []string{"sleep", "1000"}}, confine.IO{Stdin: -1, Stdout: -1, Stderr: -1})
	if err != nil {
		t.Fatal(err)
	}
	run.Kill()
	select {
	case <-run.Done():
	default:
		t.Error("killed, and not done")
	}
	if r := run.Wait(); r.Status != status.KilledKill || r.Cause != status.CauseContext {
		t.Errorf("%s by %s", r.Status, r.Cause)
	}
}

func TestCancelledBeforeStartRunsNothing(t *testing.T) {
	dir := t.TempDir()
	policy := confine.Default()
	policy.Filesystem.Workdir = "rw"
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 10 {
		run, err := confine.Start(ctx, &policy, &confine.Command{Argv: []string{"touch", "made"}, Dir: dir}, confine.IO{Stdin: -1, Stdout: -1, Stderr: -1})
		if err != nil {
			t.Fatal(err)
		}
		if r := run.Wait(); r.Status != status.KilledKill || r.Cause != status.CauseContext {
			t.Errorf("%s by %s: %s", r.Status, r.Cause, r.Reason)
		}
	}
	if _, err := os.Stat(dir + "/made"); err == nil {
		t.Error("it ran")
	}
}

func TestBadWordsStartNothing(t *testing.T) {
	policy := confine.Default()
	policy.Filesystem.AllowRead = []string{"/no/such/path"}
	var usage *confine.UsageError
	if _, err := confine.Run(context.Background(), &policy, "true"); !errors.As(err, &usage) {
		t.Errorf("%v, want a usage error", err)
	}
}

func TestUnenforceableIsAReport(t *testing.T) {
	policy := confine.Default()
	policy.Isolation = "vm"
	r, err := confine.Run(context.Background(), &policy, "true")
	if err != nil || r.Status != status.InternalError || r.SetupError == nil {
		t.Errorf("%v %+v", err, r)
	}
}

func TestManyRunsLeaveNoDescriptors(t *testing.T) {
	list := func() (open []string) {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			to, _ := os.Readlink("/proc/self/fd/" + n.Name())
			open = append(open, n.Name()+" "+to)
		}
		return open
	}
	policy := confine.Default()
	policy.TimeLimit = time.Minute
	once := func() {
		if r, err := confine.Run(context.Background(), &policy, "true"); err != nil || r.Status != status.OK {
			t.Fatal(r, err)
		}
	}
	once() // what the runtime opens for itself
	before := list()
	for range 20 {
		once()
	}
	if after := list(); len(after) != len(before) {
		t.Errorf("descriptors %q, then %q", before, after)
	}
}

// TestManyRunsWithANetworkLeaveNothing: connections to others and from them are open when
// the target ends, and neither a descriptor nor a goroutine stays.
func TestManyRunsWithANetworkLeaveNothing(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	count := func() (descriptors, goroutines int) {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names), runtime.NumGoroutine()
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	port := func(l net.Listener) string { return strconv.Itoa(l.Addr().(*net.TCPAddr).Port) }
	policy := confine.Default()
	policy.TimeLimit = time.Minute
	policy.Network.Allow = []string{"localhost:" + port(l), "no-such-name.invalid"}
	policy.Network.Publish = []string{port(free) + ":6080"}
	target := "exec 3<>/dev/tcp/127.0.0.1/" + port(l) + " && echo x >&3; (exec 4<>/dev/tcp/10.0.0.1/80) || true; echo x >/dev/udp/10.0.0.1/80 || true"
	once := func() {
		r, err := confine.Run(context.Background(), &policy, bash, "-c", target)
		if err != nil || r.Status != status.OK || r.Network == nil || len(r.Network.Attempts) < 3 {
			t.Fatalf("%+v, %v", r, err)
		}
		(<-accepted).Close()
	}
	once()
	files, routines := count()
	for range 10 {
		once()
	}
	for end := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		f, g := count()
		if f <= files && g <= routines {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d descriptors and %d goroutines, then %d and %d", files, routines, f, g)
		}
	}
}

// A program without Init would start itself over and over.
func TestAProgramWithoutInitIsTold(t *testing.T) {
	program := filepath.Join(t.TempDir(), "noinit")
	if out, err := exec.Command("go", "build", "-o", program, "./testdata/noinit").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "INTERNAL_ERROR ") || !strings.Contains(string(out), "has to call confine.Init") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestNoPolicyIsAnError(t *testing.T) {
	if _, err := confine.Start(context.Background(), nil, &confine.Command{Argv: []string{"true"}}, confine.IO{}); err == nil {
		t.Error("a run without a policy")
	}
}
