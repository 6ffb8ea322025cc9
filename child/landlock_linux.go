package child

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// makeRuleset makes the Landlock ruleset that the target puts on itself. Here
// because paths have to be opened: after pivot_root the names are those that the
// target will use, and without a mount namespace its directory for temporary files
// is there by now. Nothing is restricted yet.
func (s *state) makeRuleset() error {
	l := &s.box.Landlock
	if l.None() {
		return nil
	}
	// A kernel that knows fewer fields takes these if the others are zero.
	attr := struct{ fs, net, scoped uint64 }{l.HandledFS, l.HandledNet, l.Scoped}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fault.Of("landlock_create_ruleset", "", errno)
	}
	s.starter.Ruleset = int(fd) // close-on-exec
	for i := range l.Rules {
		r := &l.Rules[i]
		err := s.allow(r)
		if err == nil {
			continue
		}
		if f, ok := err.(*fault.Error); !r.Optional || !ok || f.Errno != unix.ENOENT && f.Errno != unix.EACCES {
			return err
		} else if f.Errno == unix.EACCES && !s.box.Has(unix.CLONE_NEWNS) {
			s.out.Skipped = append(s.out.Skipped, uint32(i)) // in a namespace the mount has been
		}
	}
	return nil
}

// allow adds one rule, to what the plan resolved and nothing else.
func (s *state) allow(r *handoff.LandlockRule) error {
	fd, err := linux.OpenPath(r.Path, 0)
	if err != nil {
		return fault.Of("open", r.Path, err)
	}
	defer unix.Close(fd)
	if r.Ino != 0 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return fault.Of("fstat", r.Path, err)
		}
		if uint64(st.Dev) != r.Dev || st.Ino != r.Ino {
			return fault.Of("open (replaced during set-up)", r.Path, unix.ESTALE)
		}
	}
	// struct landlock_path_beneath_attr ends after the descriptor.
	attr := struct {
		access uint64
		parent int32
	}{r.Access, int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(s.starter.Ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return fault.Of("landlock_add_rule", r.Path, errno)
	}
	return nil
}
