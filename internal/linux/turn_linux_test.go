package linux

import (
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

// turnsOf makes turns that only this process knows, one after another.
func turnsOf(t *testing.T, slots uintptr) (try func() *Turn) {
	names++
	name := fmt.Sprintf("%08x", os.Getpid()<<4+names)
	return func() *Turn {
		turn := &Turn{Name: name[:turnName], Patience: time.Minute, slots: slots}
		room := make([]byte, unix.PathMax)
		turn.take(unsafe.Pointer(&room[0]))
		t.Cleanup(turn.Pass)
		return turn
	}
}

var names int

// waits has a turn waited for, and returns when somebody is in the queue of whose socket that is.
func waits(t *testing.T, turn *Turn, queue int) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		turn.Wait()
	}()
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(queue), Events: unix.POLLIN}}, 30_000); n != 1 {
		t.Fatal("nobody waits: ", err)
	}
	return done
}

func TestTurnsAreWaitedForAndPassedOn(t *testing.T) {
	try := turnsOf(t, 2)
	a, b, c, d := try(), try(), try(), try()
	if !a.Has() || !b.Has() || b.Taken() || c.Has() || !c.Taken() || !d.Taken() {
		t.Fatalf("%+v\n%+v\n%+v\n%+v", a, b, c, d)
	}
	queue := []*Turn{a, b}[os.Getpid()%2]
	first := waits(t, c, int(queue.sock))
	queue.Pass()
	<-first
	if !c.Has() || c.Taken() || queue.Has() {
		t.Errorf("%+v", c)
	}
	second := waits(t, d, int(c.sock))
	c.Pass()
	<-second
	if !d.Has() {
		t.Errorf("%+v", d)
	}
	d.Pass()
	d.Pass()
	if e := try(); !e.Has() {
		t.Errorf("a turn that nobody waited for isn't free: %+v", e)
	}
}

func TestWhoEndsWithoutPassingHoldsNobodyUp(t *testing.T) {
	try := turnsOf(t, 1)
	a, b := try(), try()
	done := waits(t, b, int(a.sock))
	unix.Close(int(a.sock)) // as the kernel does for a process that is killed
	a.sock = 0
	<-done
	if !b.Has() {
		t.Errorf("%+v", b)
	}
}

func TestNobodyWaitsForLongerThanTheirPatience(t *testing.T) {
	try := turnsOf(t, 1)
	a, b := try(), try()
	b.Patience = 10 * time.Millisecond
	if b.Wait(); !a.Has() || b.Has() || b.Taken() {
		t.Errorf("%+v", b)
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
		t.Cleanup(func() { unix.Close(sock) })
		err = unix.Bind(sock, &unix.SockaddrUnix{Name: "@" + string(free.addr[3:turnAddr])})
	}
	if err != nil {
		t.Fatal(err)
	}
	return sock
}

func TestWhatIsNoTurnIsNotWaitedFor(t *testing.T) {
	try := turnsOf(t, 1)
	sock := named(t, try())
	unanswered := try()
	if !unanswered.Taken() {
		t.Fatalf("%+v", unanswered)
	}
	if unanswered.Wait(); unanswered.Has() || unanswered.Taken() { // nobody listens
		t.Errorf("%+v", unanswered)
	}
	if err := unix.Listen(sock, 10); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"x", "more than one byte"} {
		b := try()
		done := waits(t, b, sock)
		conn, _, err := unix.Accept(sock)
		if err == nil {
			_, err = unix.Write(conn, []byte(says))
			unix.Close(conn)
		}
		if <-done; err != nil || b.Has() || b.Taken() {
			t.Errorf("%q: %v, %+v", says, err, b)
		}
	}
}

// listens is in the environment of a process that listens on a descriptor, until its input ends.
const listens = "CONFINE_TEST_LISTENS"

func init() {
	if os.Getenv(listens) != "" {
		err := unix.Listen(3, 10)
		fmt.Println(err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
}

func TestASandboxHoldsNobodyUp(t *testing.T) {
	for flags, patience := range map[uintptr]time.Duration{0: 20 * time.Millisecond, unix.CLONE_NEWUSER: time.Minute} {
		try := turnsOf(t, 1)
		sock := os.NewFile(uintptr(named(t, try())), "")
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), listens+"=1")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
		if flags != 0 {
			id := []syscall.SysProcIDMap{{Size: 1, ContainerID: os.Getuid(), HostID: os.Getuid()}}
			c.SysProcAttr.UidMappings = id
		}
		c.ExtraFiles = []*os.File{sock}
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
		said := make([]byte, 5)
		if _, err := io.ReadFull(out, said); err != nil || string(said) != "<nil>" {
			t.Fatalf("%q, %v", said, err)
		}
		b := try()
		if !b.Taken() {
			t.Fatalf("%+v", b)
		}
		began := time.Now()
		b.Patience = patience
		b.Wait()
		if waited := time.Since(began) >= patience; waited != (flags == 0) || b.Has() {
			t.Errorf("flags %#x: waited is %v, %+v", flags, waited, b)
		}
		_ = in.Close()
		_ = c.Wait()
	}
}
