package supervisor

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/supervisor/tree"
)

// SweepBelow sends SIGKILL to everybody below this process, until nobody is left
// who has not had it.
func SweepBelow() error {
	t, err := tree.NewFromPID(os.Getpid())
	if err != nil {
		return err
	}
	defer t.Close()
	return t.Signal(unix.SIGKILL)
}

// sweepOrphans ends and reaps what a guard has left: it came to us, who are a
// reaper too.
func sweepOrphans() {
	for {
		if _, err := unix.Wait4(-1, nil, unix.WALL|unix.WNOHANG, nil); err == unix.ECHILD {
			return
		}
		if SweepBelow() != nil {
			return
		}
		_, _ = unix.Wait4(-1, nil, unix.WALL, nil)
	}
}
