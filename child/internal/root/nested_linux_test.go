package root

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
)

const inOwnUserns = "CONFINE_TEST_IN_OWN_USERNS"

// What a mount namespace got from one with more privileges stays together.
func TestHeldBelow(t *testing.T) {
	if os.Getenv(inOwnUserns) == "" {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestHeldBelow$")
		cmd.Env = append(os.Environ(), inOwnUserns+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}}
		text, err := cmd.CombinedOutput()
		if cmd.Process == nil || cmd.ProcessState == nil {
			must.Do(t, host.MustRun("userns"))
			t.Skip("no user namespace: ", err)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		return
	}
	for path, want := range map[string]bool{"/": true, t.TempDir(): false} { // /proc is mounted on /
		fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must.Do(t, err)
		defer unix.Close(fd)
		if got := heldBelow(fd); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
