package tree

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// The test binary runs itself: as PID 1 of a namespace, and as what runs in it.
const helperEnv = "TREE_TEST_HELPER"

var helpers = map[string]func(args []string){
	"init":     helpInit,
	"spin":     helpSpin,
	"ignore":   helpIgnore,
	"allocate": helpAllocate,
	"share":    helpShare,
	"map":      helpMap,
	"memfd":    helpMemfd,
	"scratch":  helpScratch,
	"headless": helpHeadless,
	"threads":  helpThreads,
	"wait":     func([]string) { forever() },
	"self-stop": func([]string) {
		fmt.Println("ready")
		unix.Kill(os.Getpid(), unix.SIGSTOP)
		forever()
	},
}

func TestMain(m *testing.M) {
	name := os.Getenv(helperEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	// Nobody of a test outlives it, whatever goes wrong.
	time.AfterFunc(time.Minute, func() { os.Exit(99) })
	helpers[name](os.Args[1:])
	os.Exit(0)
}

func forever() { time.Sleep(time.Hour) }

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, os.Getenv(helperEnv)+":", err)
		os.Exit(98)
	}
}

// self is this test binary as another helper.
func self(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), helperEnv+"="+name, "GOMAXPROCS=2")
	cmd.Stderr = os.Stderr
	return cmd
}

// helpInit is PID 1: it mounts a proc, says so, starts the target when told,
// reaps everybody, and says what all of them used.
func helpInit(args []string) {
	check(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	check(unix.Mount("proc", "/proc", "proc", 0, ""))
	if max := os.Getenv("TREE_TEST_PID_MAX"); max != "" {
		check(os.WriteFile("/proc/sys/kernel/pid_max", []byte(max), 0))
	}
	fmt.Println("mounted")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return
	}
	var cmd *exec.Cmd
	if strings.HasPrefix(args[0], "/") {
		cmd = exec.Command(args[0], args[1:]...)
	} else {
		cmd = self(args[0], args[1:]...)
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	check(cmd.Start())
	go func() { // the test ended
		if _, err := in.ReadString('\n'); err != nil {
			os.Exit(0)
		}
	}()
	for {
		var ws unix.WaitStatus
		if _, err := unix.Wait4(-1, &ws, 0, nil); err == unix.ECHILD {
			break
		}
	}
	var u unix.Rusage
	check(unix.Getrusage(unix.RUSAGE_CHILDREN, &u))
	fmt.Println("used", u.Utime.Nano()+u.Stime.Nano())
	forever()
}

// helpSpin uses so many milliseconds of CPU time.
func helpSpin(args []string) {
	n, err := strconv.Atoi(args[0])
	check(err)
	spin(time.Duration(n) * time.Millisecond)
}

func spin(d time.Duration) {
	for {
		var u unix.Rusage
		check(unix.Getrusage(unix.RUSAGE_SELF, &u))
		if u.Utime.Nano()+u.Stime.Nano() >= int64(d) {
			return
		}
	}
}

// helpIgnore runs helpers one after the other and waits for none.
func helpIgnore(args []string) {
	signal.Ignore(unix.SIGCHLD)
	for _, d := range args {
		cmd := self("spin", d)
		check(cmd.Start())
		cmd.Wait() // returns when it ended, but the kernel has reaped it
	}
	fmt.Println("done")
	forever()
}

func touch(b []byte) {
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
}

// helpAllocate touches so many MiB, as fast as it can, and keeps them.
func helpAllocate(args []string) {
	n, err := strconv.Atoi(args[0])
	check(err)
	for range n {
		b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		check(err)
		touch(b)
	}
	fmt.Println("ready")
	forever()
}

// helpShare has so many processes map the same so many MiB.
func helpShare(args []string) {
	n, err := strconv.Atoi(args[0])
	check(err)
	fd, err := unix.MemfdCreate("shared", 0)
	check(err)
	size, err := strconv.Atoi(args[1])
	check(err)
	check(unix.Ftruncate(fd, int64(size)<<20))
	startMappers(os.NewFile(uintptr(fd), "shared"), n, args[1])
	fmt.Println("ready")
	forever()
}

// startMappers starts so many processes that map so many MiB of a file.
func startMappers(file *os.File, n int, size string) {
	for range n {
		cmd := self("map", size)
		cmd.ExtraFiles = []*os.File{file}
		out, err := cmd.StdoutPipe()
		check(err)
		check(cmd.Start())
		_, err = bufio.NewReader(out).ReadString('\n')
		check(err)
	}
}

func helpMap(args []string) {
	size, err := strconv.Atoi(args[0])
	check(err)
	b, err := unix.Mmap(3, 0, size<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	check(err)
	touch(b)
	fmt.Println("ready")
	forever()
}

// helpHeadless ends its first thread; another one allocates.
func helpHeadless(args []string) {
	go helpAllocate(args)
	runtime.LockOSThread() // main runs in the first thread until it yields for long
	if unix.Gettid() != os.Getpid() {
		check(syscall.ENOTSUP)
	}
	unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
}

func init() {
	if os.Getenv(helperEnv) == "headless" {
		runtime.LockOSThread()
	}
}

// helpThreads keeps so many threads.
func helpThreads(args []string) {
	n, err := strconv.Atoi(args[0])
	check(err)
	for range n {
		go func() {
			runtime.LockOSThread()
			unix.Pause()
		}()
	}
	for {
		if tids, err := os.ReadDir("/proc/self/task"); err == nil && len(tids) >= n {
			break
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Println("ready")
	forever()
}

// run is a namespace with a target in it.
type run struct {
	testing.TB
	cmd  *exec.Cmd
	tree *Tree
	in   io.Writer
	out  *bufio.Reader
}

// namespace makes PID 1 and the tree of its proc. The target waits for begin.
func namespace(t testing.TB, env []string, target ...string) *run {
	t.Helper()
	cmd := self("init", target...)
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		Setsid:      true,
	}
	r := &run{TB: t, cmd: cmd}
	in, err := cmd.StdinPipe() // PID 1 ends at its end of file: with this process
	r.must(err)
	out, err := cmd.StdoutPipe()
	r.must(err)
	r.in, r.out = in, bufio.NewReader(out)
	r.must(cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	r.expect("mounted")
	proc, err := unix.Open(fmt.Sprintf("/proc/%d/root/proc", cmd.Process.Pid), unix.O_PATH|unix.O_CLOEXEC, 0)
	r.must(err)
	defer unix.Close(proc)
	r.tree, err = New(proc)
	r.must(err)
	t.Cleanup(func() { r.tree.Close() })
	return r
}

// started is a namespace whose target has said that it is ready.
func started(t testing.TB, target ...string) *run {
	t.Helper()
	r := namespace(t, nil, target...)
	r.begin()
	r.expect("ready")
	return r
}

func (r *run) begin() {
	r.Helper()
	_, err := io.WriteString(r.in, "go\n")
	r.must(err)
}

// expect reads a line, and returns what follows the word in it.
func (r *run) expect(word string) string {
	r.Helper()
	line, err := r.out.ReadString('\n')
	if !strings.HasPrefix(line, word) {
		r.Fatalf("read %q, %v; want %q", line, err, word)
	}
	return strings.TrimSpace(line[len(word):])
}

// used is what everybody used, as PID 1 knows it when all have ended.
func (r *run) used() time.Duration {
	r.Helper()
	n, err := strconv.ParseInt(r.expect("used"), 10, 64)
	r.must(err)
	return time.Duration(n)
}

func (r *run) must(err error) {
	r.Helper()
	must.Do(r, err)
}

func (r *run) sample(above int64) Sample {
	r.Helper()
	s, err := r.tree.Sample(Need{PSSAbove: above})
	r.must(err)
	return s
}

// until samples until something is so.
func (r *run) until(what string, so func(Sample) bool) Sample {
	r.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		s := r.sample(NoPSS)
		if so(s) {
			return s
		}
		if time.Now().After(deadline) {
			r.Fatalf("never %s: %+v", what, s)
		}
		time.Sleep(time.Millisecond)
	}
}

// stop stops everybody. Who is to stop must run for that, and a busy host may
// not let it for a while.
func (r *run) stop() {
	r.Helper()
	r.stopBy(r.tree)
}

func (r *run) stopBy(t *Tree) {
	r.Helper()
	err := t.Stop()
	for end := time.Now().Add(20 * time.Second); errors.Is(err, ErrUnsettled) && time.Now().Before(end); {
		err = t.Stop()
	}
	r.must(err)
}

// states are the states of all processes but PID 1, by pid.
func (r *run) states() map[int32]byte {
	r.Helper()
	r.must(r.tree.refresh())
	states := map[int32]byte{}
	for _, p := range r.tree.cur {
		if !p.root {
			states[p.pid] = p.state
		}
	}
	return states
}
