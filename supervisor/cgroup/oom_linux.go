package cgroup

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// oomWatch wakes when the OOM killer has killed in the group.
type oomWatch struct {
	wake   *os.File      // readable when something may have happened
	events int           // descriptor of the file that counts
	again  time.Duration // how long to look again after a wake: v1 tells before it kills
	told   chan struct{}
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

// KilledForMemory says of what Stat gave that the OOM killer has killed in the group, and because of the
// group's own limit: memory.events tells that in v2; in v1 the peak has to be at
// the limit. Without that it was the host, or a cgroup above, that ran out of memory.
func (g *Group) KilledForMemory(s *Stat) bool {
	if ok, _ := g.Holds(Memory); !ok {
		return false
	}
	if g.version == 2 {
		return s.OOMKills.N > 0 && s.OOMs.N > 0
	}
	const huge = 2 << 20 // a page of this size may be what found no room
	return s.OOMKills.N > 0 && s.MemoryPeak.N >= g.memory-huge
}

// watchOOM2: whoever polls memory.events is woken when it changes. inotify would do too, but a user may
// have only 128 of them.
func watchOOM2(d *dir) *oomWatch {
	wake, err := d.open("memory.events", flagsRead|unix.O_NONBLOCK)
	if err != nil {
		return nil
	}
	return newWatch(d, "memory.events", wake, 0)
}

// watchOOM1: an eventfd, registered for memory.oom_control.
func watchOOM1(d *dir) *oomWatch {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil
	}
	w := newWatch(d, "memory.oom_control", wake, 100*time.Millisecond)
	if w != nil && d.write("cgroup.event_control", strconv.Itoa(wake)+" "+strconv.Itoa(w.events)) != nil {
		w.close() // not in a kernel with PREEMPT_RT
		return nil
	}
	return w
}

// newWatch owns wake.
func newWatch(d *dir, events string, wake int, again time.Duration) *oomWatch {
	fd, err := d.open(events, flagsRead)
	if err != nil {
		_ = unix.Close(wake)
		return nil
	}
	return &oomWatch{wake: os.NewFile(uintptr(wake), "oom"), events: fd, again: again, stop: make(chan struct{}), done: make(chan struct{})}
}

func (w *oomWatch) watch() {
	defer close(w.done)
	raw, err := w.wake.SyscallConn()
	if err != nil {
		return
	}
	for !w.killed() {
		asked := false
		err := raw.Read(func(fd uintptr) bool {
			var buf [512]byte
			n, _ := unix.Read(int(fd), buf[:]) // takes what an eventfd has counted; a file gives something once
			woken := asked || n > 0 || w.killed()
			asked = true
			return woken
		})
		if err != nil {
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

// killed: the OOM killer has been here.
func (w *oomWatch) killed() bool {
	var buf [512]byte
	text, err := readStart(w.events, buf[:])
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
