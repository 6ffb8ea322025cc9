package child

import (
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// reservedPIDs: once the numbers of a pid namespace have wrapped around, the
// kernel gives none below this one (RESERVED_PIDS).
const reservedPIDs = 300

// spareThreads has the Go runtime make all threads that it will ever need here, where the
// kernel counts them with the target's tasks: one made after the fork would take the place
// of one of the target's. When a system call blocks, the runtime gives its processor to a
// thread that is idle, and makes one if none is. Of our goroutines no two run at one time, so
// that one idle thread is enough; this leaves two, for one may not have come to rest yet.
func (s *state) spareThreads() error {
	if s.box.PIDMax > 0 {
		s.threads.spare()
	}
	return nil
}

// threads are those of the runtime.
type threads struct{ spared bool }

func (t *threads) spare() {
	if t.spared {
		return
	}
	t.spared = true
	there, goOn := make(chan bool), make(chan bool)
	for range 2 {
		go func() {
			runtime.LockOSThread() // so that others need another one meanwhile
			there <- true
			<-goOn
			runtime.UnlockOSThread()
			there <- true
		}()
		<-there
	}
	close(goOn)
	<-there
	<-there
}

// openPIDs opens what setPIDMax writes, before /proc/sys becomes read-only.
func (s *state) openPIDs() error {
	if s.box.PIDMax == 0 {
		return nil
	}
	for i, name := range []string{"ns_last_pid", "pid_max"} {
		path := "sys/kernel/" + name
		fd, err := unix.Openat(s.procFD, path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT && !s.box.Refuse.NoPIDMax { // a kernel without CONFIG_CHECKPOINT_RESTORE
			s.fellBack.NoPIDMax = true
			return nil
		}
		if err != nil {
			return fault("open", "/proc/"+path, err)
		}
		s.pidFDs[i] = fd
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
	if s.box.PIDMax == 0 || s.fellBack.NoPIDMax {
		return nil
	}
	for i, n := range []uint32{reservedPIDs, reservedPIDs + s.box.PIDMax} {
		_, err := unix.Write(s.pidFDs[i], []byte(strconv.Itoa(int(n))))
		if err != nil {
			return fault("write", "/proc/sys/kernel/pid_max", err)
		}
		_ = unix.Close(s.pidFDs[i])
	}
	return nil
}
