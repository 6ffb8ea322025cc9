package denials

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sigsysGrace is how long a process may take to die of SIGSYS.
	sigsysGrace = 100 * time.Millisecond
	// maxDying bounds the processes that have it at one time.
	maxDying = 64
)

// kill ends the process that made the call, and says whether there was still one.
// The cause is noted before.
func (l *Listener) kill(fd int, n *notification, d *Denial) bool {
	p, err := Look(int(n.pid))
	survives := err != nil || p.survivesSIGSYS()
	pidfd := openProcess(int(n.pid), p.Group)
	if !waits(fd, n.id) {
		if pidfd >= 0 {
			_ = unix.Close(pidfd)
		}
		return false
	}
	d.By = p.Process
	if l.target == 0 || l.target == p.Group || l.target == int(n.pid) {
		l.record.kill(d)
	}
	if pidfd < 0 {
		// It waits for us, so the number is still its own; that of a thread means
		// the whole process, too.
		_ = unix.Kill(int(n.pid), unix.SIGKILL)
		return true
	}
	if !survives && l.dying.add(pidfd) {
		_ = unix.PidfdSendSignal(pidfd, unix.SIGSYS, nil, 0)
		return true
	}
	_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	_ = unix.Close(pidfd)
	return true
}

// openProcess gives a pidfd of the process that a thread belongs to, or -1. group
// is what /proc says about it, which is looked after: it may be that of another
// pid namespace than ours.
func openProcess(thread, group int) int {
	if fd, err := unix.PidfdOpen(thread, 0); err == nil {
		return fd
	}
	if group <= 0 {
		return -1
	}
	fd, err := unix.PidfdOpen(group, 0)
	if err != nil {
		return -1
	}
	if unix.Tgkill(group, thread, 0) != nil {
		_ = unix.Close(fd)
		return -1
	}
	return fd
}

// dying are processes that were sent SIGSYS, and get SIGKILL unless they die
// of it.
type dying struct {
	mu  sync.Mutex
	fds map[int]*time.Timer // by pidfd; guarded by mu
}

// add takes the pidfd; false when there are too many already.
func (c *dying) add(pidfd int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.fds) >= maxDying {
		return false
	}
	if c.fds == nil {
		c.fds = make(map[int]*time.Timer)
	}
	c.fds[pidfd] = time.AfterFunc(sigsysGrace, func() { c.finish(pidfd) })
	return true
}

func (c *dying) finish(pidfd int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fds[pidfd] == nil {
		return
	}
	delete(c.fds, pidfd)
	_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	_ = unix.Close(pidfd)
}

// end doesn't wait any longer.
func (c *dying) end() {
	c.mu.Lock()
	var left []int
	for pidfd, timer := range c.fds {
		timer.Stop()
		left = append(left, pidfd)
	}
	c.mu.Unlock()
	for _, pidfd := range left {
		c.finish(pidfd)
	}
}
