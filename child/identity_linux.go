package child

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
)

// closeInherited sees to it that the target gets nothing but the three streams:
// everything else is closed by its exec, also what the caller forgot to mark.
// Closing it here would take from the Go runtime what it may have opened.
func closeInherited(*state) error {
	// The socket came with the flag cleared, to survive our own exec.
	err := unix.CloseRange(sock, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err == unix.ENOSYS || err == unix.EINVAL || err == unix.EPERM { // before Linux 5.11, or filtered
		err = markListed()
	}
	return fault.Of("close_range", "", err)
}

// markListed marks what /proc lists.
func markListed() error {
	dir, err := unix.Open("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	buf := make([]byte, 4096)
	for {
		n, err := unix.Getdents(dir, buf)
		if err != nil || n == 0 {
			return err
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			fd, err := strconv.Atoi(name)
			if err == nil && fd >= sock {
				_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
			}
			if err != nil {
				return err
			}
		}
	}
}

// undumpable puts our memory, descriptors and /proc files out of the target's
// reach, which runs under the same uid.
func undumpable() error {
	return fault.Of("prctl", "PR_SET_DUMPABLE", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// identity takes the ids that the target will have. For an ordinary user they
// are the own ones, and nothing needs to be done.
func (s *state) identity() error {
	uid, gid := int(s.box.UID), int(s.box.GID)
	if s.box.DropGroups {
		if err := unix.Setgroups(nil); err != nil {
			return fault.Of("setgroups", "", err)
		}
	}
	if !s.box.OtherIDs {
		return nil
	}
	if !s.box.Has(unix.CLONE_NEWUSER) {
		// Leaving uid 0 would take the capabilities away before their time.
		if err := unix.Prctl(unix.PR_SET_SECUREBITS, noSetuidFixup, 0, 0, 0); err != nil {
			return fault.Of("prctl", "PR_SET_SECUREBITS", err)
		}
	}
	// Not asked first whether they are these: an id without a mapping reads as
	// 65534, which may be the very one that is wanted.
	if err := unix.Setresgid(gid, gid, gid); err != nil {
		return fault.Of("setresgid", "", err)
	}
	if err := unix.Setresuid(uid, uid, uid); err != nil {
		return fault.Of("setresuid", "", err)
	}
	return renew()
}

// renew does again what a change of ids undoes.
func renew() error {
	if err := undumpable(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fault.Of("prctl", "PR_SET_PDEATHSIG", err)
	}
	return supervisorAlive()
}

// supervisorAlive closes the gap in which the supervisor died and nobody told us.
func supervisorAlive() error {
	fds := []unix.PollFd{{Fd: sock, Events: unix.POLLRDHUP}}
	for {
		switch _, err := unix.Poll(fds, 0); {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fault.Of("poll", "the supervisor's socket", err)
		case fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0:
			exit(125)
		}
		return nil
	}
}

// keyring joins a new session keyring, so that the caller's keys are not ours.
// Where the call isn't there, or a filter above refuses it, nobody inside can
// reach a key either.
func keyring(*state) error {
	// A null name: a new, anonymous one.
	_, _, errno := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	if errno == 0 || errno == unix.ENOSYS || errno == unix.EPERM || errno == unix.EACCES {
		return nil
	}
	return fault.Of("keyctl", "KEYCTL_JOIN_SESSION_KEYRING", errno)
}

func (s *state) hostname() error {
	if !s.box.Has(unix.CLONE_NEWUTS) {
		return nil
	}
	if err := unix.Sethostname([]byte(s.box.Hostname)); err != nil {
		return fault.Of("sethostname", s.box.Hostname, err)
	}
	return fault.Of("setdomainname", "", unix.Setdomainname([]byte("(none)")))
}
