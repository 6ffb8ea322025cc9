package target

import (
	"os"
	"os/exec"

	"testing"

	"golang.org/x/sys/unix"
)

const asThreads = "CONFINE_TEST_THREADS"

// The init is a process of its own: with one processor, and locked to its first thread.
func init() {
	if os.Getenv(asThreads) == "" {
		return
	}
	bare := ownTasks()
	new(Threads).Spare()
	before := ownTasks()
	for range 20 {
		ts := unix.NsecToTimespec(25e6)
		_ = unix.Nanosleep(&ts, nil) // the runtime takes the processor away
	}
	if ownTasks() != before || before <= bare {
		println("threads:", bare, "then", before, "at last", ownTasks())
		os.Exit(1)
	}
	os.Exit(0)
}

func TestTheRuntimeNeedsNoMoreThanTheSpareThreads(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), asThreads+"=1", "GOMAXPROCS=1", "GOGC=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
