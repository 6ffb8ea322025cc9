package linux

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// One thread makes one process after another, also after one that came to nothing.
func TestTheForkerSaysWhatFailedAndGoesOn(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/bin/true", "/nonexistent", "/bin/true"} {
		calls := append(SignalDefaults(new(unix.Sigset_t)), Exec(path, []string{"true"}, nil))
		f, err := BeginForkExec(0, 50_000, calls)
		must.Do(t, err)
		pid, pidfd, err := f.Wait()
		if path == "/nonexistent" {
			var failed *CallError
			if !errors.As(err, &failed) || failed.Name != "execve" || !errors.Is(err, unix.ENOENT) {
				t.Errorf("%v, want execve: ENOENT", err)
			}
			continue
		}
		must.Do(t, err)
		defer unix.Close(pidfd)
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, 0, nil); err != nil || status.ExitStatus() != 0 {
			t.Errorf("%v, %v", status, err)
		}
	}
}
