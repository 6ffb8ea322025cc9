package child

import (
	"unsafe"

	"golang.org/x/sys/unix"

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
		return fault("landlock_create_ruleset", "", errno)
	}
	s.ruleset = int(fd) // close-on-exec
	for i := range l.Rules {
		r := &l.Rules[i]
		err := s.allow(r)
		if err == nil {
			continue
		}
		if f, ok := err.(*failure); !r.Optional || !ok || f.errno != unix.ENOENT && f.errno != unix.EACCES {
			return err
		} else if f.errno == unix.EACCES && !s.has(unix.CLONE_NEWNS) {
			s.skipped = append(s.skipped, uint32(i)) // in a namespace the mount has been
		}
	}
	return nil
}

// allow adds one rule, to what the plan resolved and nothing else.
func (s *state) allow(r *handoff.LandlockRule) error {
	fd, err := linux.OpenPath(r.Path, 0)
	if err != nil {
		return fault("open", r.Path, err)
	}
	defer unix.Close(fd)
	if r.Ino != 0 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return fault("fstat", r.Path, err)
		}
		if uint64(st.Dev) != r.Dev || st.Ino != r.Ino {
			return fault("open (replaced during set-up)", r.Path, unix.ESTALE)
		}
	}
	// struct landlock_path_beneath_attr ends after the descriptor.
	attr := struct {
		access uint64
		parent int32
	}{r.Access, int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(s.ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return fault("landlock_add_rule", r.Path, errno)
	}
	return nil
}
