package cgroup

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds Kill, and Remove.
const patience = 2 * time.Second

// Kill sends SIGKILL to everything in the group, forks under way included. It
// does not wait for the end of what it killed where the kernel does it at once (v2, Linux
// 5.14), and else returns when nothing is left.
func (g *Group) Kill() error {
	return g.kill(time.Now().Add(patience))
}

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
		if err := d.killAll(g.holder(), until); err != nil {
			return err
		}
	}
	return nil
}

// freezes stops a group around a round of signals and wakes it again, so that
// what forks faster than it can be killed doesn't get away. That it could not costs
// rounds only.
type freezes interface {
	Freeze() error
	Thaw() error
}

// barren stops the forks instead: nothing new comes while the rest is killed.
type barren struct{ pids *dir }

func (b barren) Freeze() error { return b.pids.write("pids.max", "0") }
func (barren) Thaw() error     { return nil }

// holder is what this group has of both.
func (g *Group) holder() freezes {
	switch {
	case g.version == 2 || g.freezer != nil:
		return g
	case g.pids != nil:
		return barren{g.pids}
	}
	return nil
}

// killAll kills by the list in cgroup.procs until that is empty.
func (d *dir) killAll(f freezes, until time.Time) error {
	for {
		pids, err := d.processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(until) {
			return d.failed("cgroup.procs", unix.ETIMEDOUT)
		}
		if f != nil {
			_ = f.Freeze()
			if pids, err = d.processes(); err != nil {
				_ = f.Thaw()
				return err
			}
		}
		fds, err := d.killThese(pids)
		if f != nil {
			_ = f.Thaw() // v1: the frozen die when they wake
		}
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
	fd, err := openAt(d.fd, "cgroup.procs", flagsRead)
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
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
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

// freezePatience is how long Freeze waits for the last thread to stop. One
// inside a system call that can't be interrupted takes as long as it takes.
const freezePatience = time.Second

// Freeze stops everything in the group, and returns when it stands. The wall
// clock goes on.
func (g *Group) Freeze() error {
	if g.version == 2 {
		d := g.dirs[0]
		if err := d.write("cgroup.freeze", "1"); err != nil { // Linux 5.2
			return d.failed("cgroup.freeze", err)
		}
		return d.await("frozen 1", time.Now().Add(freezePatience))
	}
	if g.freezer == nil {
		return g.noFreezer()
	}
	if err := g.freezer.write("freezer.state", "FROZEN"); err != nil {
		return g.freezer.failed("freezer.state", err)
	}
	return g.freezer.frozen1(time.Now().Add(freezePatience))
}

// Thaw lets it go on.
func (g *Group) Thaw() error {
	if g.version == 2 {
		if err := g.dirs[0].write("cgroup.freeze", "0"); err != nil {
			return g.dirs[0].failed("cgroup.freeze", err)
		}
		return nil
	}
	if g.freezer == nil {
		return g.noFreezer()
	}
	if err := g.freezer.write("freezer.state", "THAWED"); err != nil {
		return g.freezer.failed("freezer.state", err)
	}
	return nil
}

func (g *Group) noFreezer() *Error {
	return &Error{Source: g.source, Kind: NoController, Op: "freeze", Errno: unix.EOPNOTSUPP, Why: "no freezer hierarchy that can be written, or it was not asked for"}
}

// frozen1 waits for v1's freezer, which has no event to wait for; reading the state is
// what moves it on.
func (d *dir) frozen1(until time.Time) error {
	var buf [32]byte
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		state, err := d.file("freezer.state", buf[:])
		if err != nil {
			return failed("", "read", path.Join(d.path, "freezer.state"), err)
		}
		if strings.HasPrefix(string(state), "FROZEN") {
			return nil
		}
		if time.Now().After(until) {
			return d.failed("freezer.state", unix.ETIMEDOUT)
		}
		time.Sleep(pause)
	}
}

// await waits until a line of cgroup.events says so. The kernel wakes whoever polls
// the file when it changes.
func (d *dir) await(line string, until time.Time) error {
	fd, err := openAt(d.fd, "cgroup.events", flagsRead)
	if err != nil {
		return failed("", "open", path.Join(d.path, "cgroup.events"), err)
	}
	defer unix.Close(fd)
	var buf [128]byte
	for {
		text, err := readAgain(fd, buf[:])
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
