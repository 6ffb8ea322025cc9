package seccomp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// A victim is this test binary, run again: it loads a filter on its main thread
// and makes one call, or executes a program.

const victimEnv = "CONFINE_TEST_SECCOMP_VICTIM"

type victim struct {
	Program []uint64  // nothing: no filter
	NR      uintptr   // the call to make, raw…
	Args    [6]uint64 //
	I386    bool      // …or getpid by int 0x80…
	Argv    []string  // …or the program to execute

	Listener bool // the filter is loaded with a listener, which is closed at once
}

func init() {
	if os.Getenv(victimEnv) != "" {
		runtime.LockOSThread() // in init: it is the main thread
	}
}

func TestMain(m *testing.M) {
	if text := os.Getenv(victimEnv); text != "" {
		var v victim
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			panic(err)
		}
		os.Unsetenv(victimEnv)
		v.be()
	}
	os.Exit(m.Run())
}

// be never returns. It prints "ok" or "errno N".
func (v *victim) be() {
	path := ""
	if len(v.Argv) > 0 {
		var err error
		if path, err = exec.LookPath(v.Argv[0]); err != nil {
			panic(err)
		}
	}
	if len(v.Program) > 0 {
		flags := uintptr(0)
		if v.Listener {
			flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
		}
		if fd := loadFilter(v.Program, flags); v.Listener {
			unix.Close(int(fd))
		}
	}
	switch {
	case path != "":
		panic(syscall.Exec(path, v.Argv, os.Environ()))
	case v.I386:
		answer(i386Getpid())
	default:
		r, _, errno := syscall.RawSyscall6(v.NR, uintptr(v.Args[0]), uintptr(v.Args[1]), uintptr(v.Args[2]),
			uintptr(v.Args[3]), uintptr(v.Args[4]), uintptr(v.Args[5]))
		if v.NR == unix.SYS_CLONE && r == 0 && errno == 0 {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		if errno != 0 {
			answer(-int32(errno))
		}
		answer(int32(r & 0x7fffffff))
	}
}

// answer ends the victim by calls of this thread alone: after some of the attempts it shares
// less with the others than Go's runtime takes for granted.
func answer(n int32) {
	text := "ok\n"
	if n < 0 {
		text = fmt.Sprintf("errno %d\n", -n)
	}
	_, _, errno := syscall.RawSyscall(unix.SYS_WRITE, 1, uintptr(unsafe.Pointer(unsafe.StringData(text))), uintptr(len(text)))
	syscall.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
}

func loadFilter(program []uint64, flags uintptr) (fd uintptr) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	list := make([]unix.SockFilter, len(program))
	for i, w := range program {
		list[i] = unix.SockFilter{Code: uint16(w >> 48), Jt: uint8(w >> 40), Jf: uint8(w >> 32), K: uint32(w)}
	}
	prog := unix.SockFprog{Len: uint16(len(list)), Filter: &list[0]}
	fd, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		panic(errno)
	}
	return fd
}

// run gives how the victim fared: "ok", "errno N" or the signal that ended it,
// and everything that it printed.
func (v victim) run(t *testing.T) (string, string) {
	t.Helper()
	text, err := json.Marshal(v)
	must.Do(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), victimEnv+"="+string(text))
	cmd.Dir = t.TempDir()
	// What it started goes with it, and must not keep its output open.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case err == nil:
		return strings.TrimSpace(string(out)), string(out)
	case !errors.As(err, &failed):
		t.Fatal(err)
	}
	if ws := failed.Sys().(syscall.WaitStatus); ws.Signaled() {
		return unix.SignalName(ws.Signal()), string(out)
	}
	return failed.Error(), string(out)
}
