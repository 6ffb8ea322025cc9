package child

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
)

// maskShut is for a place to hide that can't be searched for, in a directory that shuts
// the child out. With capabilities over every id that is mapped that is one of somebody
// else's, or a security module's saying, and the target, which has less, reaches nothing
// in it either. It is hidden whole all the same: its owner can open it while the run
// goes on, and then what was to be hidden would be seen.
//
// Without an own user namespace the capabilities are real, and who is refused then has a
// file server of another mind, which may let the target in.
func (s *state) maskShut(m *handoff.Mount, why error) error {
	if why != unix.EACCES || !s.has(unix.CLONE_NEWUSER) {
		return fault("openat2", m.Dst, why)
	}
	dir := "/"
	for i := 1; i < len(m.Dst); i++ {
		if m.Dst[i] != '/' {
			continue
		}
		fd, err := s.inside(m.Dst[:i])
		if err == unix.EACCES {
			break
		}
		if err != nil {
			return fault("openat2", m.Dst[:i], err)
		}
		_ = unix.Close(fd)
		dir = m.Dst[:i]
	}
	if dir == "/" || dir == m.Dst {
		return fault("openat2", m.Dst, why)
	}
	if err := s.mask(&handoff.Mount{Kind: handoff.MountMask, Dst: dir}); err != nil {
		return err
	}
	s.shut = append(s.shut, dir)
	return errShut
}

// errShut: the place of an entry lies in a directory that is hidden whole.
var errShut error = &failure{op: "hidden with what is around it", errno: unix.EACCES}

// inShut says whether something that is hidden whole hides a place as well.
func (s *state) inShut(dst string) bool {
	for _, dir := range s.shut {
		if strings.HasPrefix(dst, dir+"/") {
			return true
		}
	}
	return false
}
