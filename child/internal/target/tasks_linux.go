package target

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Threads are those of the runtime.
type Threads struct{ spared bool }

// Spare has the Go runtime make all threads that it will ever need, so that the kernel counts them with the
// target's tasks: one made after the fork would take the place of one of the target's. When a system call
// blocks, the runtime gives its processor to a thread that is idle, and makes one if none is. Of our
// goroutines no two run at one time, so that one idle thread is enough; this leaves two, for one may not
// have come to rest yet.
func (t *Threads) Spare() {
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

// addOwnTasks makes room for the threads of this init, which count too, as far as
// the caller's own limit lets it.
func (t *Target) addOwnTasks(limit *unix.Rlimit, own *Threads) {
	var most unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NPROC, &most) != nil {
		return
	}
	own.Spare()
	t.tasks = ownTasks()
	limit.Cur, limit.Max = min(limit.Cur+t.tasks, most.Max), min(limit.Max+t.tasks, most.Max)
}

// NewTasks are the threads that the Go runtime has made since addOwnTasks: none, as far as
// spareThreads knows the runtime.
func (t *Target) NewTasks() uint32 {
	if t.tasks == 0 {
		return 0
	}
	return uint32(max(ownTasks(), t.tasks) - t.tasks)
}

// ownTasks are the threads of this init.
func ownTasks() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/task", &st) != nil || st.Nlink < 3 {
		return 1
	}
	return uint64(st.Nlink) - 2
}
