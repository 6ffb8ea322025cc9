package supervisor

import (
	"io"
	"os"
	"strconv"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// masks watches that what is hidden stays so. A mount that hides a file is detached as soon as somebody
// outside replaces or removes the file, and what is there then can be read. The kernel tells of every
// change of the run's mounts; the target itself can make none.
type masks struct {
	info *os.File // mountinfo of the run's mount namespace
	lost chan error
	done chan struct{}
}

// watchMasks begins to watch those at some paths inside, until the init ends. Nil: there are none. proc is
// the root of the proc inside, or -1: the caller's may show nothing of others.
func watchMasks(points []string, child *process, proc int) (*masks, error) {
	if len(points) == 0 || child.bare || child.pidfd < 0 {
		return nil, nil
	}
	path := "1"
	if proc < 0 {
		path = "/proc/" + strconv.Itoa(child.pid)
	}
	dir, err := unix.Openat(proc, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT && proc >= 0 {
		return nil, nil // the init has ended
	}
	if err != nil {
		return nil, &SetupError{Step: "watch", Op: "open", Path: path, Errno: errnoOf(err)}
	}
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, "mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.EINVAL, unix.ENOENT: // the init has ended, and has no mounts; it isn't reaped yet
		return nil, nil
	default:
		return nil, &SetupError{Step: "watch", Op: "open", Path: path + "/mountinfo", Errno: errnoOf(err)}
	}
	m := &masks{info: os.NewFile(uintptr(fd), "mountinfo"), lost: make(chan error, 1), done: make(chan struct{})}
	go m.run(points, child.pidfd)
	return m, nil
}

func (m *masks) run(points []string, init int) {
	defer close(m.done)
	defer m.info.Close()
	had, err := m.points()
	for err == nil {
		wait := []unix.PollFd{{Fd: int32(init), Events: unix.POLLIN}, {Fd: int32(m.info.Fd()), Events: unix.POLLPRI}}
		if _, err = unix.Poll(wait, -1); err == unix.EINTR {
			err = nil
			continue
		}
		if wait[0].Revents != 0 {
			return
		}
		var has map[string]bool
		if has, err = m.points(); err != nil {
			break
		}
		for _, at := range points {
			if had[at] && !has[at] {
				m.lost <- &SetupError{Step: "watch", Op: "what is hidden was replaced, moved or removed from outside:", Path: at,
					Hint: "leave it alone during the run, or show it by --allow-read with its path"}
				return
			}
		}
	}
	m.lost <- &SetupError{Step: "watch", Op: "read", Path: m.info.Name(), Errno: errnoOf(err)}
}

// points are the mount points, as the inside names them.
func (m *masks) points() (map[string]bool, error) {
	if _, err := m.info.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	all, err := mountinfo.GetMountsFromReader(m.info, nil)
	points := make(map[string]bool, len(all))
	for _, one := range all {
		points[one.Mountpoint] = true
	}
	return points, err
}

// gone tells of a mask that is no longer there.
func (m *masks) gone() <-chan error {
	if m == nil {
		return nil
	}
	return m.lost
}

// end waits for the end of the init, which is near.
func (m *masks) end() {
	if m != nil {
		<-m.done
	}
}
