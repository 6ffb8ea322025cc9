package linux

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stays is what numbers below lead to.
var stays []string

// stack is what the kernel leaves for a process, with room below.
func stack(env ...string) []uintptr {
	at := func(s string) uintptr {
		stays = append(stays, strings.Clone(s+"\x00"))
		return uintptr(unsafe.Pointer(unsafe.StringData(stays[len(stays)-1])))
	}
	words := slices.Concat(make([]uintptr, roomBelow/8), []uintptr{2, at("confine"), at("true"), 0})
	for _, e := range env {
		words = append(words, at(e))
	}
	return append(words, 0, 6, 4096, 25, 1<<40, 0, 0)
}

func TestTheRuntimeOfARunBeginsWithOneProcessor(t *testing.T) {
	const below = roomBelow / 8
	for _, env := range [][]string{nil, {"A=b"}, {"A=b", "C=d"}, slices.Repeat([]string{"A=b"}, 900)} {
		var f First
		words := stack(env...)
		was := slices.Clone(words[below:])
		to := f.oneProcessor(unsafe.Pointer(&words[below]))
		if !slices.Equal(words[below:], was) {
			t.Error("what the kernel left was changed")
		}
		n := 4 + len(env)
		got := unsafe.Slice((*uintptr)(to), len(was)+1)
		if !f.one || uintptr(to)%16 != uintptr(unsafe.Pointer(&words[below]))%16 || uintptr(to) < uintptr(unsafe.Pointer(&words[0])) {
			t.Errorf("%d variables: %v, %x", len(env), f.one, to)
			continue
		}
		if !slices.Equal(got[:n], was[:n]) || !slices.Equal(got[n+1:], was[n:]) || !beginsWith(*(*unsafe.Pointer)(unsafe.Pointer(&got[n])), "GOMAXPROCS=1\x00") {
			t.Errorf("%d variables: %x, and was %x", len(env), got, was)
		}
	}
	for why, env := range map[string][]string{"the caller says how many": {"A=b", "GOMAXPROCS=7"}, "too many": slices.Repeat([]string{"A=b"}, 1100)} {
		var f First
		words := stack(env...)
		if sp := unsafe.Pointer(&words[below]); f.oneProcessor(sp) != sp || f.one {
			t.Error(why)
		}
	}
}

func TestAProcessThatGoesOnHasItsProcessors(t *testing.T) {
	t.Cleanup(func() { runtime.SetDefaultGOMAXPROCS() })
	runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(1)
	t.Setenv("GOMAXPROCS", "1")
	f := First{one: true}
	f.Settle()
	for end := time.Now().Add(time.Minute); runtime.GOMAXPROCS(0) != all; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("one still")
		}
	}
}

// What is sent to the process group of this process is not for the other one.
func TestTheFirstProcessHasAGroupOfItsOwn(t *testing.T) {
	f := First{Namespaces: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS, Capabilities: 1 << unix.CAP_SYS_ADMIN, Turn: Turn{Name: "testing1"},
		Argv: [2]string{"x\x00", "-test.run=^$\x00"}, Env: [3]string{"A=b\x00", "A=b\x00", "A=b\x00"}}
	words := stack()
	f.Begin(unsafe.Pointer(&words[roomBelow/8]), true)
	defer unix.Close(int(f.Turn.sock))
	pid, pidfd, sock, told := f.Take()
	if pid == 0 {
		t.Fatal("none was made")
	}
	defer unix.Wait4(pid, nil, 0, nil)
	defer unix.Close(pidfd)
	defer unix.Close(sock)
	if !FirstBegun(told) {
		if slices.Contains(strings.Split(os.Getenv("CONFINE_MUST_RUN"), ","), "userns") {
			t.Fatal("it hasn't begun")
		}
		t.Skip("no user namespace can be made")
	}
	if group, err := unix.Getpgid(pid); err != nil || group != pid {
		t.Errorf("its group is %d, and it is %d: %v", group, pid, err)
	}
}
