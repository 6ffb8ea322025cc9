package cgroup

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// oomWatch wakes when the OOM killer has killed in the group.
type oomWatch struct {
	wake   *os.File // readable when something may have happened
	events int      // descriptor of the file that counts
	told   chan struct{}
	again  time.Duration // how long to look again after a wake: v1 tells before it kills
	drain  func(fd int)
	stop   chan struct{}
	done   chan struct{} // once told is there
}

// OOM gives one value when the OOM killer has killed in the group. Where the kernel can't
// tell, or no limit on memory holds, it gives none ever; Stat().OOMKills counts.
// Calls give the same channel.
//
// In v2 the kernel kills the whole group (memory.oom.group). In v1 it kills one
// process, and the rest is the caller's.
func (g *Group) OOM() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.oom
	if w == nil || g.gone {
		return nil
	}
	if w.told == nil {
		w.told = make(chan struct{}, 1)
		go w.watch()
	}
	return w.told
}

// watchOOM2: memory.events becomes urgent to read when it changes. That is asked
// through an epoll of its own, since the runtime's asks for reading only; inotify would do
// too, but a user may have only 128 of them.
func watchOOM2(d *dir) *oomWatch {
	events, err := openAt(d.fd, "memory.events", flagsRead)
	if err != nil {
		return nil
	}
	var buf [256]byte
	_, _ = readAgain(events, buf[:]) // what changes from here on counts
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, events, &unix.EpollEvent{Events: unix.EPOLLPRI | unix.EPOLLET})
	}
	if err == nil {
		err = unix.SetNonblock(epoll, true)
	}
	if err != nil {
		closeFD(&epoll)
		_ = unix.Close(events)
		return nil
	}
	return newWatch(epoll, events, 0, func(fd int) {
		var one [1]unix.EpollEvent
		_, _ = unix.EpollWait(fd, one[:], 0)
	})
}

// watchOOM1: an eventfd, registered for memory.oom_control.
func watchOOM1(d *dir) *oomWatch {
	events, err := openAt(d.fd, "memory.oom_control", flagsRead)
	if err != nil {
		return nil
	}
	eventfd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = d.write("cgroup.event_control", strconv.Itoa(eventfd)+" "+strconv.Itoa(events))
	}
	if err != nil { // not in a kernel with PREEMPT_RT
		closeFD(&eventfd)
		_ = unix.Close(events)
		return nil
	}
	return newWatch(eventfd, events, 100*time.Millisecond, func(fd int) {
		var eight [8]byte
		_, _ = unix.Read(fd, eight[:])
	})
}

func newWatch(wake, events int, again time.Duration, drain func(int)) *oomWatch {
	return &oomWatch{wake: os.NewFile(uintptr(wake), "oom"), events: events, again: again, drain: drain,
		stop: make(chan struct{}), done: make(chan struct{})}
}

func (w *oomWatch) watch() {
	defer close(w.done)
	raw, err := w.wake.SyscallConn()
	if err != nil {
		return
	}
	for !w.killed() {
		if raw.Read(w.ready) != nil {
			return // closed
		}
		for until := time.Now().Add(w.again); time.Now().Before(until) && !w.killed(); {
			select {
			case <-w.stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}
	w.told <- struct{}{}
}

// ready takes what is there to be read, and says whether there was something.
func (w *oomWatch) ready(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	if err != nil || n == 0 {
		return false
	}
	w.drain(int(fd))
	return true
}

// killed: the OOM killer has been here.
func (w *oomWatch) killed() bool {
	var buf [512]byte
	text, err := readAgain(w.events, buf[:])
	return err == nil && field(text, "oom_kill").N > 0
}

func (w *oomWatch) close() {
	if w == nil {
		return
	}
	close(w.stop)
	_ = w.wake.Close()
	if w.told != nil {
		<-w.done
	}
	closeFD(&w.events)
}
