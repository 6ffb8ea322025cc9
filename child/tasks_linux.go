package child

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
)

// reservedPIDs: once the numbers of a pid namespace have wrapped around, the
// kernel gives none below this one (RESERVED_PIDS).
const reservedPIDs = 300

// spareThreads has the kernel count all threads of ours before there are any of the target's.
func (s *state) spareThreads() error {
	if s.bounds.PIDMax > 0 {
		s.starter.Threads.Spare()
	}
	return nil
}

// setPIDMax lets the pid namespace have exactly so many numbers more: the next
// is the first that the kernel uses again after a wrap, and the last is so much
// later. Ours are below, and don't count. It stands behind the start of our last
// thread and before the capabilities go.
//
// The plan asks for it only from Linux 6.14 on: before, the number is the whole
// host's.
func (s *state) setPIDMax() error {
	if s.bounds.PIDMax == 0 || s.out.Fallbacks.NoPIDMax {
		return nil
	}
	for i, n := range []uint32{reservedPIDs, reservedPIDs + s.bounds.PIDMax} {
		_, err := unix.Write(s.root.PIDs[i], []byte(strconv.Itoa(int(n))))
		if err != nil {
			return fault.Of("write", "/proc/sys/kernel/pid_max", err)
		}
		_ = unix.Close(s.root.PIDs[i])
	}
	return nil
}
