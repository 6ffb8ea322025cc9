package supervisor

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/must"
)

// A child of these tests is alive until its socket is at its end.
func init() {
	if slices.Equal(os.Args, childArgv) {
		_, _ = unix.Read(3, make([]byte, 1))
		os.Exit(0)
	}
}

// Whoever is led to the child's program from inside can't change the caller's file, nor the copy that is executed where that can't be had.
func TestTheChildsProgramCantBeChanged(t *testing.T) {
	namespaces := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWPID)
	if os.Geteuid() != 0 {
		namespaces |= unix.CLONE_NEWUSER
	}
	moved := func() ([]linux.Call, error) {
		calls, err := ofProgram(namespaces)
		calls[2].Same[0][1]++
		return calls, err
	}
	nameless := func() ([]linux.Call, error) {
		calls, err := ofProgram(namespaces)
		calls[4].Args[4] = 0 // ENOENT
		return calls, err
	}
	for name, program := range map[string]func() ([]linux.Call, error){
		"by a mount": func() ([]linux.Call, error) { return ofProgram(namespaces) },
		"another is there by its name, so a copy":         moved,
		"it can't be executed by a descriptor, so a copy": nameless,
	} {
		c := clone(namespaces)
		if err := c.begun(); err != nil {
			t.Skipf("no namespaces here: %v", err)
		}
		c.child.shoot()
		_, _ = unix.Wait4(c.child.pid, nil, 0, nil)
		_ = unix.Close(c.child.pidfd)
		c.execute(program())
		child, failed := c.wait()
		if failed != nil {
			t.Fatal(name, failed)
		}
		exe := "/proc/" + strconv.Itoa(child.pid) + "/exe"
		var own, is unix.Stat_t
		must.Do(t, unix.Stat(selfPath, &own))
		fd, err := unix.Open(exe, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(name, err)
		}
		must.Do(t, unix.Fstat(fd, &is))
		same := own.Dev == is.Dev && own.Ino == is.Ino
		if err := unix.Fchmod(fd, is.Mode&0o777); same && err != unix.EROFS {
			t.Errorf("%s: the mode of the caller's file could be changed: %v", name, err)
		}
		if same != (name == "by a mount") {
			t.Errorf("%s: the same file: %v", name, same)
		}
		if seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); !same && (err != nil || seals&unix.F_SEAL_WRITE == 0) {
			t.Errorf("%s: what is executed instead can be written: %#x, %v", name, seals, err)
		}
		_ = unix.Close(fd)
		child.discard()
	}
}
