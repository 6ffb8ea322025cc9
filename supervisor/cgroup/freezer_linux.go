package cgroup

import (
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

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
