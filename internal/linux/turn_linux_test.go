package linux

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// turnsOf makes turns that only this process and those that it starts know, one after another.
func turnsOf(t *testing.T, slots uintptr) (name string, try func() *Turn) {
	names++
	name = fmt.Sprintf("%08x", os.Getpid()<<4+names)[:turnName]
	return name, func() *Turn {
		turn := &Turn{Name: name, slots: slots}
		turn.take(unsafe.Pointer(&room))
		t.Cleanup(turn.Pass)
		return turn
	}
}

var (
	names int
	room  [unix.PathMax]byte
)

// What the process does that this is in the environment of: to listen on a descriptor, or to wait for a turn, and pass it on when its input ends.
// A goroutine that waited so would have all others wait.
const does = "CONFINE_TEST_TURN"

func init() {
	switch name, patience, _ := strings.Cut(os.Getenv(does), ","); name {
	case "":
		return
	case "listen":
		fmt.Println(unix.Listen(3, 10))
		_, _ = io.Copy(io.Discard, os.Stdin)
	default:
		turn := &Turn{Name: name, slots: 1}
		turn.Patience, _ = time.ParseDuration(patience)
		if turn.take(unsafe.Pointer(&room)); turn.all {
			turn.wait(unsafe.Pointer(&room))
		}
		fmt.Println(turn.Has())
		_, _ = io.Copy(io.Discard, os.Stdin)
		turn.Pass()
	}
	os.Exit(0)
}

// other starts a process that does so. says is the next line of its, and end ends it.
func other(t *testing.T, does string, flags uintptr, files ...*os.File) (says func() string, end func()) {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env, c.ExtraFiles = append(os.Environ(), does), files
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	if flags != 0 {
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{Size: 1, ContainerID: os.Getuid(), HostID: os.Getuid()}}
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if errors.Is(err, unix.EPERM) && !slices.Contains(strings.Split(os.Getenv("CONFINE_MUST_RUN"), ","), "userns") {
		t.Skip("no user namespace can be made")
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	end = func() {
		_ = in.Close()
		_ = c.Wait()
	}
	t.Cleanup(end)
	return func() string { lines.Scan(); return lines.Text() }, end
}

// queued returns when somebody waits.
func queued(t *testing.T, sock int) {
	t.Helper()
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(sock), Events: unix.POLLIN}}, 30_000); n != 1 {
		t.Fatal("nobody waits: ", err)
	}
}

func TestTurnsAreWaitedForAndPassedOn(t *testing.T) {
	name, try := turnsOf(t, 1)
	a, b := try(), try()
	if !a.Has() || a.all || b.Has() || !b.all {
		t.Fatalf("%+v\n%+v", a, b)
	}
	first, firstEnds := other(t, does+"="+name+",1m", 0)
	queued(t, int(a.sock))
	if a.Pass(); first() != "true" || a.Has() {
		t.Errorf("%+v", a)
	}
	if c := try(); !c.all {
		t.Errorf("a turn that was passed on is free: %+v", c)
	}
	second, secondEnds := other(t, does+"="+name+",1m", 0)
	firstEnds()
	if second() != "true" {
		t.Error("a turn isn't waited for")
	}
	secondEnds()
	if c := try(); !c.Has() {
		t.Errorf("a turn that nobody waited for isn't free: %+v", c)
	}
	_, some := turnsOf(t, 3)
	for i := range 4 {
		if turn := some(); turn.Has() != (i < 3) || turn.all != (i == 3) {
			t.Errorf("%d: %+v", i, turn)
		}
	}
}

func TestWhoEndsWithoutPassingHoldsNobodyUp(t *testing.T) {
	name, try := turnsOf(t, 1)
	a := try()
	says, _ := other(t, does+"="+name+",1m", 0)
	queued(t, int(a.sock))
	unix.Close(int(a.sock)) // as the kernel does for a process that is killed
	a.sock = 0
	if says() != "true" {
		t.Error("it has none")
	}
}

func TestNobodyWaitsForLongerThanTheirPatience(t *testing.T) {
	name, try := turnsOf(t, 1)
	a := try()
	says, _ := other(t, does+"="+name+",10ms", 0)
	if says() != "false" || !a.Has() {
		t.Errorf("%+v", a)
	}
}

// named is a socket by the name of the only turn.
func named(t *testing.T, free *Turn) (sock int) {
	if !free.Has() {
		t.Fatalf("%+v", free)
	}
	free.Pass()
	sock, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(sock, &unix.SockaddrUnix{Name: "@" + string(free.addr[3:turnAddr])})
	}
	if err != nil {
		t.Fatal(err)
	}
	return sock
}

func TestWhatIsNoTurnIsNotWaitedFor(t *testing.T) {
	name, try := turnsOf(t, 1)
	sock := named(t, try())
	defer unix.Close(sock)
	if says, _ := other(t, does+"="+name+",10m", 0); says() != "false" {
		t.Error("nobody listens")
	}
	if err := unix.Listen(sock, 10); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"x", "more than one byte"} {
		says, _ := other(t, does+"="+name+",10m", 0)
		queued(t, sock)
		conn, _, err := unix.Accept(sock)
		if err == nil {
			_, err = unix.Write(conn, []byte(text))
			unix.Close(conn)
		}
		if err != nil || says() != "false" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestASandboxHoldsNobodyUp(t *testing.T) {
	name, try := turnsOf(t, 1)
	sock := os.NewFile(uintptr(named(t, try())), "")
	defer sock.Close()
	listening, _ := other(t, does+"=listen", unix.CLONE_NEWUSER, sock)
	if said := listening(); said != "<nil>" {
		t.Fatal(said)
	}
	says, end := other(t, does+"="+name+",1h", 0) // which the test doesn't last
	if says() != "false" {
		t.Error("it has a turn that nobody passed on")
	}
	end()
	// Nor is it given one.
	name, try = turnsOf(t, 1)
	a := try()
	inside, _ := other(t, does+"="+name+",1h", unix.CLONE_NEWUSER)
	if inside() != "false" || !a.Has() {
		t.Errorf("%+v", a)
	}
}
