package cgroup

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// patience bounds Remove.
const patience = 2 * time.Second

// kill sends SIGKILL to everything in the group, forks under way included. It
// does not wait for the end of what it killed where the kernel does it at once (v2, Linux
// 5.14), and else returns when nothing is left.
func (g *Group) kill(until time.Time) error {
	if g.version == 2 {
		err := g.dirs[0].write("cgroup.kill", "1")
		if err == nil {
			return nil
		}
		if err != unix.ENOENT {
			return g.dirs[0].failed("cgroup.kill", err)
		}
	}
	for _, d := range g.dirs {
		// A process that died on its way in is in some of them only.
		if err := d.killAll(g.stopForks, until); err != nil {
			return err
		}
	}
	return nil
}

// stopForks keeps new processes from coming while those that are listed are killed, so that what
// forks faster than it can be killed doesn't get away. That it could not costs rounds only.
func (g *Group) stopForks() (release func()) {
	if g.version == 2 {
		d := g.dirs[0]
		if d.write("cgroup.freeze", "1") == nil { // Linux 5.2
			_ = d.await("frozen 1", time.Now().Add(freezePatience))
		}
		return func() { _ = d.write("cgroup.freeze", "0") }
	}
	if d := g.in(PIDs); d != nil {
		_ = d.write("pids.max", "0")
	}
	return nothing
}

func nothing() {}

// freezePatience is how long the last thread may take to stop. One inside a system call that
// can't be interrupted takes as long as it takes.
const freezePatience = time.Second

// killAll kills by the list in cgroup.procs until that is empty. stopForks, if there is
// one, keeps others from coming meanwhile.
func (d *dir) killAll(stopForks func() (release func()), until time.Time) error {
	for {
		pids, err := d.processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(until) {
			return d.failed("cgroup.procs", unix.ETIMEDOUT)
		}
		release := nothing
		if stopForks != nil {
			release = stopForks()
			if pids, err = d.processes(); err != nil {
				release()
				return err
			}
		}
		fds, err := d.killThese(pids)
		release()
		for _, fd := range fds {
			if left := time.Until(until); left > 0 {
				_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
			}
			_ = unix.Close(fd)
		}
		if err != nil {
			return err
		}
	}
}

// batch is how many processes are held by descriptors at once.
const batch = 128

// killThese kills those of pids that are still members, and gives descriptors of the last of
// them, to wait for.
//
// A number in the list may be another process's when it is used. Whoever is still
// listed after the descriptor was opened is the one that the descriptor means, or else
// the one that it means is dead.
func (d *dir) killThese(pids []int) (fds []int, err error) {
	for some := range slices.Chunk(pids, batch) {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		fds = fds[:0]
		held := some[:0]
		for _, pid := range some {
			if fd, err := unix.PidfdOpen(pid, 0); err == nil {
				fds, held = append(fds, fd), append(held, pid)
			}
		}
		now, err := d.processes()
		if err != nil {
			return fds, err
		}
		for i, pid := range held {
			if _, found := slices.BinarySearch(now, pid); !found {
				continue
			}
			if err := unix.PidfdSendSignal(fds[i], unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
				return fds, failed("", "pidfd_send_signal", d.path, err)
			}
		}
	}
	return fds, nil
}

// processes are the members, sorted. Those of another pid namespace are left out.
// The file is opened each time: v1 keeps the list of an open file. A directory that is
// removed has none.
func (d *dir) processes() (pids []int, err error) {
	fd, err := d.open("cgroup.procs", flagsRead)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, failed("", "open", path.Join(d.path, "cgroup.procs"), err)
	}
	defer unix.Close(fd)
	var text []byte
	buf := make([]byte, 4096)
	for {
		n, err := linux.Again(func() (int, error) { return unix.Read(fd, buf) })
		if err != nil && err != unix.ENODEV {
			return nil, failed("", "read", path.Join(d.path, "cgroup.procs"), err)
		}
		if n <= 0 {
			break
		}
		text = append(text, buf[:n]...)
	}
	for line := range bytes.Lines(text) {
		if pid, ok := number(line); ok && pid > 0 {
			pids = append(pids, int(pid))
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// await waits until a line of cgroup.events says so. The kernel wakes whoever polls
// the file when it changes.
func (d *dir) await(line string, until time.Time) error {
	fd, err := d.open("cgroup.events", flagsRead)
	if err != nil {
		return failed("", "open", path.Join(d.path, "cgroup.events"), err)
	}
	defer unix.Close(fd)
	var buf [128]byte
	for {
		text, err := readStart(fd, buf[:])
		if err != nil {
			return failed("", "read", path.Join(d.path, "cgroup.events"), err)
		}
		if strings.Contains(string(text), line+"\n") {
			return nil
		}
		left := time.Until(until)
		if left <= 0 {
			return failed("", "poll", path.Join(d.path, "cgroup.events"), unix.ETIMEDOUT)
		}
		// POLLERR is always reported, and comes with POLLPRI.
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, int(left.Milliseconds())+1)
		if err != nil && err != unix.EINTR {
			return failed("", "poll", path.Join(d.path, "cgroup.events"), err)
		}
	}
}
