package child

import (
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
)

// Where there is no pid namespace this process is no init but a guard: the
// reaper of everything that the target makes and leaves (PR_SET_CHILD_SUBREAPER).
// What no kernel mechanism ends with it, it ends itself: when the target has
// ended, and when the supervisor has.

// Hooks that confine.Init sets: a guard needs packages that this one doesn't import.
var (
	Sweep func() error           // sends SIGKILL to everybody below this process
	Tidy  func(dir string) error // removes a directory with everything in it
)

// sameProgram says whether the parent is this program too: nobody else has a
// plan for us.
func sameProgram(parent string) bool {
	var own, other unix.Stat_t
	return unix.Stat("/proc/self/exe", &own) == nil && unix.Stat("/proc/"+parent+"/exe", &other) == nil &&
		own.Dev == other.Dev && own.Ino == other.Ino
}

// makeTemp makes the run's own directory for temporary files, where no private
// root has one.
func (s *state) makeTemp() error {
	if s.box.TempDir == "" {
		return nil
	}
	return fault.Of("mkdir", s.box.TempDir, unix.Mkdir(s.box.TempDir, 0o700))
}

// guard makes this process the parent of what loses its own, and the one that
// outlives the supervisor: it must not die with it, and leave the target alone.
func (s *state) guard() error {
	if s.box.Has(unix.CLONE_NEWPID) {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fault.Of("prctl", "PR_SET_CHILD_SUBREAPER", err)
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0); err != nil {
		return fault.Of("prctl", "PR_SET_PDEATHSIG", err)
	}
	return nil
}

func (s *state) tidy() {
	if s.box.TempDir != "" && Tidy != nil {
		_ = Tidy(s.box.TempDir)
	}
}

// killAll sends SIGKILL to everything of the run but this process.
func (s *state) killAll() {
	if s.box.Has(unix.CLONE_NEWPID) {
		_ = unix.Kill(-1, unix.SIGKILL)
	} else if Sweep != nil {
		_ = Sweep()
	}
}
