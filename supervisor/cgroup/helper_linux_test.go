package cgroup

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
)

// helperVar names what the test binary is when it is started again.
const helperVar = "CONFINE_CGROUP_HELPER"

func TestMain(m *testing.M) {
	if what := os.Getenv(helperVar); what != "" {
		os.Exit(help(strings.Fields(what)))
	}
	host.ProbeMain()
	os.Exit(m.Run())
}

// help is a member of a group, or somebody who makes one.
func help(args []string) int {
	number := 0
	if len(args) > 1 {
		number, _ = strconv.Atoi(args[1])
	}
	switch args[0] {
	case "sleep":
		fmt.Println("ready")
		time.Sleep(5 * time.Minute) // should nobody kill it
	case "hog": // memory, all of it used
		fmt.Println("ready")
		b := make([]byte, number<<20)
		for i := range len(b) / 4096 {
			b[i*4096] = 1
		}
		fmt.Println("done")
		runtime.KeepAlive(b)
	case "tasks": // how many children it gets
		fmt.Println("ready")
		got := 0
		for ; got < number; got++ {
			if err := sleeper().Start(); err != nil {
				break
			}
		}
		fmt.Println(got)
		time.Sleep(5 * time.Minute) // should nobody kill it
	case "tree": // children of children, each in a session of its own
		if number > 0 {
			for range 2 {
				c := again("tree " + strconv.Itoa(number-1))
				c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				c.Stdout = os.Stdout
				_ = c.Start()
			}
		}
		fmt.Println("ready")
		time.Sleep(5 * time.Minute) // should nobody kill it
	case "spin":
		fmt.Println("ready")
		for n := 0; ; n++ {
			spun = n
		}
	case "chain": // each link ends as soon as there is another
		fmt.Println("ready")
		runtime.LockOSThread()
		for until := time.Now().Add(time.Minute).Unix(); ; { // nothing but system calls from here on
			next, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			var now unix.Timespec
			_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&now)), 0)
			if errno == 0 && next != 0 || now.Sec > until {
				_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
		}
	case "init": // of the sandbox: clones into the directory that it is told
		fmt.Println("ready")
		in := bufio.NewReader(os.Stdin)
		name, _ := in.ReadString('\n')
		fd, err := unix.Open(strings.TrimSpace(name), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			fmt.Println(err)
			return 3
		}
		target := sleeper()
		target.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
		if err := target.Start(); err != nil {
			fmt.Println(err)
			return 3
		}
		fmt.Println(target.Process.Pid)
		_, _ = in.ReadByte()
	case "make":
		return makeAndWait(strings.Join(args[1:], " "))
	}
	return 0
}

// spun keeps a loop from being nothing.
var spun int

func sleeper() *exec.Cmd { return again("sleep") }

// again is the test binary as a helper.
func again(what string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), helperVar+"="+what, "GOMAXPROCS=2")
	return c
}

// madeNone is made, of a helper that ends then.
func (p *process) madeNone() made {
	p.Helper()
	m := p.made()
	_ = p.Wait()
	return m
}

// joining is a helper that joins by the descriptors 3 and up. That is for one
// thread, which no Go program is.
func joining(n int, what string) *exec.Cmd {
	script := ""
	for fd := 3; fd < 3+n; fd++ {
		script += fmt.Sprintf("echo 0 >&%d && exec %d>&- || exit 3; ", fd, fd)
	}
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	c := exec.Command("/bin/sh", "-c", script+`exec "$0"`, self)
	c.Env = again(what).Env
	return c
}

// made is what a helper that calls Make says.
type made struct {
	Source  Source
	Version int
	Paths   []string
	Holds   bool // the limit on memory
	Error   string
	Kind    Kind
	Errno   syscall.Errno
	Own     string
}

// makeAndWait makes a group, says so, and removes it when its input ends.
func makeAndWait(options string) int {
	var o Options
	if err := json.Unmarshal([]byte(options), &struct{ *Options }{&o}); err != nil {
		fmt.Println(err)
		return 3
	}
	if dir := os.Getenv("READ_ONLY"); dir != "" {
		err := unix.Mount(dir, dir, "", unix.MS_BIND, "")
		if err == nil {
			err = unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
		}
		if err != nil {
			fmt.Println(err)
			return 3
		}
	}
	var child *exec.Cmd
	if os.Getenv("WITH_CHILD") != "" {
		child = sleeper()
		if err := child.Start(); err != nil {
			fmt.Println(err)
			return 3
		}
		defer child.Wait()
		defer child.Process.Kill()
	}
	g, err := Make(o)
	if os.Getenv("WITH_MEMBER") != "" {
		_, procs := g.Join()
		member := joining(len(procs), "sleep")
		for _, fd := range procs {
			member.ExtraFiles = append(member.ExtraFiles, os.NewFile(uintptr(fd), "cgroup.procs"))
		}
		out, _ := member.StdoutPipe()
		if err := member.Start(); err != nil {
			fmt.Println(err)
			return 3
		}
		_, _ = out.Read(make([]byte, 10))
		fmt.Println(member.Process.Pid)
	}
	say(g, err)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if child != nil {
		_ = child.Process.Kill()
		_ = child.Wait()
	}
	if err := g.Remove(); err != nil {
		fmt.Println(err)
		return 3
	}
	say(nil, nil)
	return 0
}

func say(g *Group, err error) {
	var m made
	if e, ok := err.(*Error); ok {
		m.Error, m.Kind, m.Errno = e.Error(), e.Kind, e.Errno
	} else if g != nil {
		m.Source, m.Version, m.Paths = g.Source(), g.Version(), g.Paths()
		m.Holds, _ = g.Holds(Memory)
	}
	own, _ := os.ReadFile("/proc/self/cgroup")
	m.Own = string(own)
	text, _ := json.Marshal(m)
	fmt.Println(string(text))
}

// need skips a test where one of the conditions doesn't hold; "cgroup1:x|cgroup2:x" is
// either.
func need(t testing.TB, conditions ...string) {
	t.Helper()
	for _, c := range conditions {
		held := false
		for one := range strings.SplitSeq(c, "|") {
			ok, err := host.Has(one)
			must.Do(t, err)
			held = held || ok
		}
		if !held {
			for one := range strings.SplitSeq(c, "|") {
				must.Do(t, host.MustRun(one))
			}
			t.Skip("needs ", c)
		}
	}
}

// process is a helper that runs.
type process struct {
	testing.TB
	*exec.Cmd
	out *bufio.Scanner
	in  io.WriteCloser
}

func start(t testing.TB, c *exec.Cmd) *process {
	t.Helper()
	p := &process{TB: t, Cmd: c}
	out, err := c.StdoutPipe()
	must.Do(t, err)
	p.in, err = c.StdinPipe()
	must.Do(t, err)
	c.Stderr = os.Stderr
	must.Do(t, c.Start())
	p.out = bufio.NewScanner(out)
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return p
}

func (p *process) line() string {
	p.Helper()
	if !p.out.Scan() {
		p.Fatalf("%s ended: %v", p.Env[len(p.Env)-2], p.Wait())
	}
	return p.out.Text()
}

func (p *process) expect(want string) {
	p.Helper()
	if got := p.line(); got != want {
		p.Fatalf("said %q, want %q", got, want)
	}
}

func (p *process) made() (m made) {
	p.Helper()
	line := p.line()
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		p.Fatalf("%q: %v", line, err)
	}
	return m
}

// member starts a helper in the group, which joins by writing.
func member(t testing.TB, g *Group, what string) *process {
	t.Helper()
	_, procs := g.Join()
	c := joining(len(procs), what)
	for _, fd := range procs {
		copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		must.Do(t, err)
		f := os.NewFile(uintptr(copied), "cgroup.procs")
		defer f.Close()
		c.ExtraFiles = append(c.ExtraFiles, f)
	}
	return start(t, c)
}

// mustMake makes a group, and removes it at the end of the test.
func mustMake(t testing.TB, o Options) *Group {
	t.Helper()
	g, err := Make(o)
	must.Do(t, err)
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// eventually waits for what the kernel does by itself in a moment.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("not so in a minute: ", what)
		}
	}
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
