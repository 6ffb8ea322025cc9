package process

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/status"
)

// What the kernel refuses because of what stands in a tree leads to no lower tier, and isn't
// told as the host's.
func TestNoTreeLeadsToALowerTier(t *testing.T) {
	f := host.Current()
	if g, _ := probeTier(f); g != tierUserNS {
		t.Skip("no user namespaces here: what is refused is the host's doing")
	}
	for _, errno := range []unix.Errno{unix.EINVAL, unix.EPERM, unix.EACCES, unix.ENOSYS, unix.ENODEV, unix.ENOTDIR} {
		for _, op := range []string{"move_mount", "fsopen", "open_tree", "mount", "openat2", "mkdirat"} {
			for _, step := range []string{"root", "mounts", "pivot_root"} {
				e := &status.SetupError{Step: step, Op: op, Errno: int(errno)}
				for _, g := range []tier{tierUserNS, tierRoot} {
					if g == tierRoot && step == "pivot_root" {
						continue
					}
					if lower, why, ok := g.next(f, e, true); ok {
						t.Errorf("%s: %s: %v: from %d to %d, %s", step, op, errno, g, lower, why.reason)
					}
				}
				if why := diagnose(f, e); why.ofNamespaces() {
					t.Errorf("%s: %s: %v: %s", step, op, errno, why.reason)
				}
			}
		}
	}
	for _, errno := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN} {
		for _, e := range []status.SetupError{{Step: "start", Op: "clone"}, {Step: "maps", Op: "open"}} {
			if e.Errno = int(errno); cloning(&e) {
				if lower, _, ok := tierUserNS.next(f, &e, false); ok {
					t.Errorf("%v at %s, which is none the next moment, leads to tier %d", errno, e.Step, lower)
				}
			}
		}
	}
	if _, _, ok := tierUserNS.next(f, &status.SetupError{Step: "start", Op: "clone", Errno: int(unix.EPERM)}, true); !ok {
		t.Error("a refused clone leads nowhere")
	}
}

// What the kernel refuses for want of tasks is told as that; a silent end alone is none where the user may have many.
func TestWantOfTasksIsTold(t *testing.T) {
	for _, c := range []struct {
		e    status.SetupError
		want bool
	}{
		{status.SetupError{Step: "exec", Op: "clone", Errno: int(unix.EAGAIN)}, true},
		{status.SetupError{Step: "start", Op: "clone", Errno: int(unix.ENOSPC)}, false},
		{status.SetupError{Step: "mounts", Op: "write", Errno: int(unix.EAGAIN)}, false},
		{status.SetupError{Step: "init", Op: "it ended without a word"}, false},
	} {
		if got := fewTasks(&c.e); got != c.want {
			t.Errorf("%+v: %v", c.e, got)
		}
	}
}
