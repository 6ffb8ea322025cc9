package child

import (
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// noSetuidFixup is SECBIT_NO_SETUID_FIXUP: capabilities don't follow the user id.
const noSetuidFixup = 1 << 2

// Securebits: uid 0 means nothing (NOROOT), and none of it can be changed back.
// KEEP_CAPS alone isn't locked: there is nothing to keep, and ping(8) gives up when it
// can't set it.
const lockedSecurebits = 1<<0 | 1<<1 | // SECBIT_NOROOT, locked
	1<<2 | 1<<3 | // SECBIT_NO_SETUID_FIXUP, locked
	1<<6 | 1<<7 // SECBIT_NO_CAP_AMBIENT_RAISE, locked

// mortal gives this process, and what descends from it, no more of a caller whom the kernel spares when memory runs out. In a cgroup where everybody is
// spared (-1000) it ends nobody, and a limit on memory would hold a run up for ever.
func mortal() error {
	const name = "/proc/self/oom_score_adj"
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Of("open", name, err)
	}
	defer unix.Close(fd)
	var sign [1]byte
	if n, err := unix.Read(fd, sign[:]); err != nil || n == 1 && sign[0] != '-' {
		return fault.Of("read", name, err)
	}
	to, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Of("open", name, err)
	}
	defer unix.Close(to)
	_, err = unix.Write(to, []byte("0"))
	return fault.Of("write", name, err)
}

// dropCapabilities empties every capability set of this thread but for the one
// capability that the target's last step needs, to make its cgroup namespace;
// see targetCalls. No execve gives any of them back.
//
// The other threads of ours are the Go runtime's own. They keep what they have,
// over nothing but these namespaces: capset(2) reaches one thread only, and to
// interrupt the others for it takes longer than all mounts together. No thread of
// an init that isn't dumpable can be traced by the target, and one that has
// capabilities even less.
func dropCapabilities(box *handoff.Box) error {
	if err := dropForGood(box); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fault.Of("prctl PR_CAP_AMBIENT_CLEAR_ALL", "", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fault.Of("prctl PR_SET_NO_NEW_PRIVS", "", err)
	}
	if box.Has(unix.CLONE_NEWCGROUP) {
		return fault.Of("capset", "", linux.SetCapabilities(1<<unix.CAP_SYS_ADMIN))
	}
	return fault.Of("capset", "", linux.SetCapabilities(0))
}

// dropForGood empties the bounding set and locks the securebits. An ordinary user
// outside of a user namespace may not, nor root inside of another sandbox; but these have no
// capability either, and no_new_privs sees to it that no execve brings one.
func dropForGood(box *handoff.Box) error {
	if !box.Has(unix.CLONE_NEWUSER) && unix.Geteuid() != 0 && !box.OtherIDs {
		return nil
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP+24; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL {
			break // past the kernel's last one
		}
		if err == unix.EPERM && powerless() {
			return nil
		}
		if err != nil {
			return fault.Of("prctl PR_CAPBSET_DROP", "", err)
		}
	}
	return fault.Of("prctl PR_SET_SECUREBITS", "", unix.Prctl(unix.PR_SET_SECUREBITS, lockedSecurebits, 0, 0, 0))
}

// powerless: there is no capability that could be had, now or by no_new_privs later.
func powerless() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	err := unix.Capget(&header, &sets[0])
	return err == nil && sets[0].Permitted|sets[1].Permitted == 0
}
