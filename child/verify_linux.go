package child

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
)

// verify holds the kernel's table of mounts against the plan: nothing else is
// mounted, and every mount carries the flags that it was to get.
func (s *state) verify() error {
	if !s.has(unix.CLONE_NEWNS) {
		return nil
	}
	table, err := s.mountTable()
	if err != nil {
		return err
	}
	return s.check(table)
}

func (s *state) check(table []mountEntry) error {
	for i := range table {
		m := &table[i]
		want, known := s.wanted(m.point)
		if !known {
			return fault("verify (a mount that nobody planned)", m.point, unix.EEXIST)
		}
		for _, option := range []struct {
			name string
			want bool
		}{{"ro", want.readOnly}, {"nosuid", true}, {"nodev", want.nodev}} {
			if option.want && !m.has(option.name) {
				return fault("verify (mount lacks "+option.name+")", m.point, unix.EPERM)
			}
		}
	}
	return nil
}

type wanted struct{ readOnly, nodev bool }

// wanted is what the plan says of a mount point: of the last entry there, or of
// the bind whose own mounts reach so far.
func (s *state) wanted(point string) (w wanted, known bool) {
	if point == "/" {
		w, known = wanted{readOnly: !s.hasImage() || s.fellBack.RootReadOnly, nodev: true}, true
	}
	if s.fellBack.RootReadOnly { // what is mounted in the tree came with it
		w, known = wanted{readOnly: true, nodev: true}, true
	}
	for _, dir := range s.shut {
		if point == dir {
			return wanted{true, true}, true
		}
	}
	best := -1
	for i := range s.plan.Mounts {
		m := &s.plan.Mounts[i]
		below := strings.HasPrefix(point, m.Dst+"/")
		if m.Dst != point && !below || len(m.Dst) < best {
			continue
		}
		switch m.Kind {
		case handoff.MountBind:
			w = wanted{m.ReadOnly, !m.Device}
		case handoff.MountOverlay:
			w = wanted{s.fellBack.OverlayReadOnly, true}
		case handoff.MountReadOnly:
			w = wanted{true, w.nodev}
		case handoff.MountScratch, handoff.MountTmpfs:
			w = wanted{m.ReadOnly, true}
		case handoff.MountFile:
			if !s.hasImage() || m.Dst != point {
				continue
			}
			w = wanted{true, true}
		case handoff.MountMask:
			w = wanted{true, true}
		case handoff.MountProc:
			w = wanted{s.fellBack.ProcOfCaller, true}
		case handoff.MountDevpts:
			w = wanted{}
		case handoff.MountPin:
			// what was there, once more
		default:
			continue
		}
		best, known = len(m.Dst), true
	}
	return w, known
}
