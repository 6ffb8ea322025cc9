package confine_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

func run(t *testing.T, policy *confine.Policy, word ...string) (string, *confine.Report) {
	t.Helper()
	cmd := confine.CommandContext(t.Context(), word[0], word[1:]...)
	cmd.Policy = policy
	out, r, err := cmd.Output()
	if r == nil {
		t.Fatal(err)
	}
	return string(out), r
}

func TestRunGivesBytesAsTheyWere(t *testing.T) {
	if got, r := run(t, nil, "printf", `\377\001`); got != "\xff\x01" || r.Bytes.Stdout != 2 {
		t.Errorf("%q, %+v", got, r.Bytes)
	}
}

func TestAPolicyThatIsNotValidStartsNothing(t *testing.T) {
	for _, spoil := range []func(*confine.Policy){
		func(p *confine.Policy) { p.CPUTime = -1 },
		func(p *confine.Policy) { p.MaxFiles = -1 },
		func(p *confine.Policy) { p.Filesystem.AllowRead = []string{"relative"} },
		func(p *confine.Policy) { p.Filesystem.AllowRead = []string{"/no/such/path"} },
	} {
		cmd := confine.Command("true")
		cmd.Policy = confine.Default()
		spoil(cmd.Policy)
		r, err := cmd.Run()
		var usage *confine.UsageError
		if !errors.As(err, &usage) || r != nil {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := confine.Open(t.Context(), cmd.Policy); !errors.As(err, &usage) {
			t.Errorf("a sandbox: %v", err)
		}
	}
}

// full is a writer that takes some bytes and then fails.
type full struct{ room int }

var errFull = errors.New("it is full")

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestTheErrorOfAWriterIsGiven(t *testing.T) {
	box, err := confine.Open(t.Context(), nil)
	must.Do(t, err)
	defer box.Close()
	for name, command := range map[string]func(string, ...string) *confine.Cmd{"of a run": confine.Command, "in a sandbox": box.Command} {
		cmd := command("echo", "hello")
		cmd.Stdout = &full{}
		if r, err := cmd.Run(); r == nil || r.Status != status.OK || !errors.Is(err, errFull) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		cmd = command("sh", "-c", "while echo hello; do :; done; exit 3")
		cmd.Stdout = &full{20}
		cmd.Stderr = cmd.Stdout
		r, err := cmd.Run()
		var exit *confine.ExitError
		if r == nil || r.Status == status.OK || !errors.As(err, &exit) || !errors.Is(err, errFull) {
			t.Errorf("%s, both streams: %+v, %v", name, r, err)
		}
	}
}

func TestKillLeavesNothing(t *testing.T) {
	cmd := confine.Command("sleep", "1000")
	must.Do(t, cmd.Start())
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	r, err := cmd.Wait()
	var exit *confine.ExitError
	if r.Status != status.KilledKill || r.Cause != status.CauseContext || !errors.As(err, &exit) {
		t.Errorf("%s by %s, %v", r.Status, r.Cause, err)
	}
	if err := cmd.Start(); err == nil {
		t.Error("it was started twice")
	}
}

func TestSignalsReachARun(t *testing.T) {
	cmd := confine.Command("sh", "-c", "trap 'echo heard; exit 9' USR1; echo ready; while :; do sleep 0.05; done")
	out, in := io.Pipe()
	cmd.Stdout = in
	must.Do(t, cmd.Start())
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Error(err)
	}
	if line, err := lines.ReadString('\n'); line != "heard\n" {
		t.Error(line, err)
	}
	if r, _ := cmd.Wait(); r.RC != 9 {
		t.Errorf("%+v", r)
	}
}

func TestARunHasATerminalOfTheSizeThatIsAsked(t *testing.T) {
	cmd := confine.Command("sh", "-c", "stty size; read go; stty size")
	in, keys := io.Pipe()
	screen, out := io.Pipe()
	cmd.Stdin, cmd.Stdout, cmd.TTY = in, out, &confine.WinSize{Rows: 17, Cols: 71}
	must.Do(t, cmd.Start())
	lines := bufio.NewReader(screen)
	if line, err := lines.ReadString('\n'); line != "17 71\r\n" {
		t.Fatal(line, err)
	}
	if err := cmd.Process.Resize(confine.WinSize{Rows: 5, Cols: 50}); err != nil {
		t.Error(err)
	}
	if _, err := io.WriteString(keys, "\n"); err != nil {
		t.Error(err)
	}
	for line := ""; line != "5 50\r\n"; {
		var err error
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatal(line, err)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	if r, err := cmd.Wait(); err != nil {
		t.Error(r, err)
	}
	keys.Close()
}

func TestCancelledBeforeStartRunsNothing(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 10 {
		cmd := confine.CommandContext(ctx, "touch", "made")
		cmd.Policy, cmd.Dir = confine.Default(), dir
		cmd.Policy.Filesystem.Workdir = "rw"
		if r, err := cmd.Run(); r == nil || r.Status != status.KilledKill || r.Cause != status.CauseContext {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if _, err := os.Stat(dir + "/made"); err == nil {
		t.Error("it ran")
	}
}

func TestWhatCannotBeEnforcedIsAReport(t *testing.T) {
	cmd := confine.Command("true")
	cmd.Policy = confine.Default()
	cmd.Policy.Isolation = "vm"
	if r, err := cmd.Run(); r == nil || r.Status != status.InternalError || r.SetupError == nil {
		t.Errorf("%v %+v", err, r)
	}
	var exit *confine.ExitError
	if _, err := confine.Open(t.Context(), cmd.Policy); !errors.As(err, &exit) || exit.Report.SetupError == nil {
		t.Errorf("a sandbox: %v", err)
	}
}

func TestASandboxTellsWhatWasWrittenToItsOverlay(t *testing.T) {
	dir := t.TempDir()
	policy := confine.Default()
	policy.Filesystem.Workdir, policy.AllowPartial = "overlay", []string{"all"}
	box, err := confine.Open(t.Context(), policy, confine.WithDir(dir), confine.WithCommand("sh"))
	must.Do(t, err)
	for range 2 {
		if _, err := box.Command("sh", "-c", "echo x >>made").Run(); err != nil {
			t.Error(err)
		}
	}
	r, err := box.Close()
	must.Do(t, err)
	if box.Ledger()[status.Overlay].Effective && (r.Changes == nil || r.Changes.Counts.Added != 1) {
		t.Errorf("%+v", r.Changes)
	}
}

func TestManyRunsLeaveNoDescriptors(t *testing.T) {
	list := func() (open []string) {
		names, err := os.ReadDir("/proc/self/fd")
		must.Do(t, err)
		for _, n := range names {
			to, _ := os.Readlink("/proc/self/fd/" + n.Name())
			open = append(open, n.Name()+" "+to)
		}
		return open
	}
	policy := confine.Default()
	policy.TimeLimit = time.Minute
	once := func() {
		if _, r := run(t, policy, "true"); r.Status != status.OK {
			t.Fatal(r)
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

func TestFilesOfASandboxAreItsUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root runs as another")
	}
	policy := confine.Default()
	policy.User = &confine.User{UID: 12345, GID: 12346}
	box, err := confine.Open(t.Context(), policy, confine.WithCommand("sh"))
	must.Do(t, err)
	defer box.Close()
	must.Do(t, errors.Join(box.Files().WriteFile("/tmp/f", []byte("x"), 0o600), box.Files().Mkdir("/tmp/d", 0o700)))
	if out, r, err := box.Command("sh", "-c", "cat /tmp/f && echo y >>/tmp/f && touch /tmp/d/in").CombinedOutput(); err != nil {
		t.Errorf("%s, %v\n%s", r.Reason, err, out)
	}
}

// Whoever is in it, in the background, too, ends with a sandbox; and what was about it is about nothing else afterwards.
func TestASandboxEndsWithItsContextAndItsMemory(t *testing.T) {
	policy := confine.Default()
	policy.MemoryLimit, policy.AllowPartial = 64<<20, []string{"all"}
	for name, end := range map[string]func(cancel func(), box *confine.Sandbox){
		"context": func(cancel func(), _ *confine.Sandbox) { cancel() },
		"memory_": func(_ func(), box *confine.Sandbox) {
			_, _ = box.Command("sh", "-c", "x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo ${#x}").Run()
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		box, err := confine.Open(ctx, policy, confine.WithCommand("sh"))
		must.Do(t, err)
		if _, err := box.Files().Stat("/proc/1/maps"); err == nil {
			t.Error("what /proc says is among the files")
		}
		fore := box.Command("sh", "-c", "setsid sleep 77 & exec sleep 76")
		must.Do(t, fore.Start())
		end(cancel, box)
		if r, _ := fore.Wait(); r.Status == status.OK || r.Status == status.InternalError {
			t.Errorf("%s: what ran: %s, %s", name, r.Status, r.Reason)
		}
		files := box.Files()
		for until := time.Now().Add(10 * time.Second); ; {
			if _, err := box.Command("true").Run(); errors.Is(err, backend.ErrClosed) {
				break
			}
			if time.Now().After(until) {
				t.Fatalf("%s: the sandbox is still there", name)
			}
		}
		r, err := box.Close()
		if err != nil || !strings.HasPrefix(string(r.Cause), name) {
			t.Errorf("%s: %q: %q, %v", name, r.Cause, r.Reason, err)
		}
		host, err := os.Open(t.TempDir())
		must.Do(t, err)
		if _, err := files.List("/"); !errors.Is(err, backend.ErrClosed) {
			t.Errorf("%s: files of a sandbox that is closed: %v", name, err)
		}
		host.Close()
		cancel()
	}
}

func TestCloseIsTheCauseOfWhatItEnds(t *testing.T) {
	box, err := confine.Open(t.Context(), nil, confine.WithCommand("sh"))
	must.Do(t, err)
	cmd := box.Command("sleep", "100")
	must.Do(t, cmd.Start())
	if _, err := box.Close(); err != nil {
		t.Error(err)
	}
	if r, _ := cmd.Wait(); r.Status != status.KilledKill || r.Reason != "the sandbox was closed" {
		t.Errorf("%s by %s: %s", r.Status, r.Cause, r.Reason)
	}
}

// leavesNothing does something over and over, and neither a descriptor nor a goroutine stays.
func leavesNothing(t *testing.T, once func()) {
	t.Helper()
	count := func() (descriptors, goroutines int) {
		names, err := os.ReadDir("/proc/self/fd")
		must.Do(t, err)
		return len(names), runtime.NumGoroutine()
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

func TestManySandboxesLeaveNothing(t *testing.T) {
	once := func() {
		box, err := confine.Open(t.Context(), nil, confine.WithCommand("sh"))
		must.Do(t, err)
		_, _ = box.Files().ReadFile("/etc/passwd")
		for _, tty := range []*confine.WinSize{nil, {Rows: 24, Cols: 80}} {
			cmd := box.Command("sh", "-c", "sleep 100 & cat")
			cmd.Stdin, cmd.Stdout, cmd.TTY = strings.NewReader("x\n\x04"), io.Discard, tty
			if _, err := cmd.Run(); err != nil {
				t.Error(err)
			}
		}
		left := box.Command("sleep", "100")
		left.Stdout = io.Discard
		if err := left.Start(); err != nil {
			t.Error(err)
		}
		if _, err := box.Close(); err != nil {
			t.Error(err)
		}
		_, _ = left.Wait()
	}
	leavesNothing(t, once)
}

// TestManyRunsWithANetworkLeaveNothing: connections to others and from them are open when
// the target ends, and neither a descriptor nor a goroutine stays.
func TestManyRunsWithANetworkLeaveNothing(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must.Do(t, err)
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
	must.Do(t, err)
	free.Close()
	port := func(l net.Listener) string { return strconv.Itoa(l.Addr().(*net.TCPAddr).Port) }
	policy := confine.Default()
	policy.TimeLimit = time.Minute
	policy.Network.Allow = []string{"localhost:" + port(l), "no-such-name.invalid"}
	policy.Network.Publish = []string{port(free) + ":6080"}
	target := "exec 3<>/dev/tcp/127.0.0.1/" + port(l) + " && echo x >&3; (exec 4<>/dev/tcp/10.0.0.1/80) || true; echo x >/dev/udp/10.0.0.1/80 || true"
	once := func() {
		_, r := run(t, policy, bash, "-c", target)
		if r.Status != status.OK || r.Network == nil || len(r.Network.Attempts) < 3 {
			t.Fatalf("%+v", r)
		}
		(<-accepted).Close()
	}
	leavesNothing(t, once)
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
