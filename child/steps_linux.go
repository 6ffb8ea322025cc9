package child

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/child/internal/network"
	"github.com/confine-run/confine/child/internal/root"
	"github.com/confine-run/confine/child/internal/target"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// state is what one step leaves for a later one.
type state struct {
	box    *handoff.Box
	bounds *handoff.Bounds // nil until they have come
	out    handoff.Built   // what was really done
	step   string

	root    *root.Builder
	starter target.Starter

	reaping  bool // reap goes on
	used     bool // something was asked for since the last rest
	mu       sync.Mutex
	targets  map[int]*target.Target // by pid; guarded by mu
	children chan struct{}          // there are children again
}

// steps build the sandbox: all that happens before the first fork of a target.
// Their order matters; each says why it stands where it stands.
var steps = []struct {
	name string
	do   func(*state) error
}{
	// First: whatever the caller forgot to close must not be there when
	// anything else goes wrong.
	{"descriptors", closeInherited},
	// While there is the caller's /proc, and our own files in it are ours.
	{"oom_score_adj", func(*state) error { return mortal() }},
	// Not before the plan: until the maps are written our own /proc files must
	// belong to the caller.
	{"dumpable", func(*state) error { return undumpable() }},
	// Before anything is made: files must belong to the target's ids, and a tmpfs
	// refuses ids that have no mapping.
	{"identity", (*state).identity},
	{"keyring", keyring},
	{"hostname", (*state).hostname},
	{"loopback", (*state).loopback},
	// Needs lo, and the caller's /proc.
	{"network", func(s *state) error { return network.Prepare(s.box, &s.out.Fallbacks, sock) }},
	// All that is about mounts, in steps of its own: root.Steps. It waits for the bounds where it needs them.
	{"root", (*state).buildRoot},
	{"temp_dir", (*state).makeTemp},
	// Of paths as the target will find them, while they can be opened.
	{"landlock", (*state).makeRuleset},
	{"guard", (*state).guard},
	// Before the kernel counts tasks.
	{"threads", (*state).spareThreads},
	// Everything is built: tell, then let go of what built it.
	{"built", (*state).built},
	// As late as it can be: whatever is forked from here on counts.
	{"pid_max", (*state).setPIDMax},
	{"capabilities", func(s *state) error { return dropCapabilities(s.box) }},
	{"signals", func(s *state) error { return defaultSignals(s.box) }},
}

// awaitBounds waits for what the outside makes meanwhile, once, while the caller's tree is there.
func (s *state) awaitBounds() (*handoff.Bounds, error) {
	frame, fds, err := linux.ReceiveFrame(sock)
	if err != nil {
		exit(125) // the outside has given up
	}
	f, err := handoff.Decode(frame)
	if err != nil {
		return nil, err
	}
	bounds, ok := f.(*handoff.Bounds)
	if !ok {
		return nil, fault.Of("receive", "", unix.EPROTO)
	}
	to := &s.starter
	if to.Ordinary = bounds.Group.Ordinary; bounds.Group.Dir && len(fds) > 0 {
		to.JoinDir, fds = fds[0], fds[1:]
	}
	if to.JoinProcs = fds; len(fds) != int(bounds.Group.Procs) || bounds.Group.Dir && to.JoinDir == linux.NoCgroup {
		return nil, fault.Of("receive", "", unix.EBADMSG)
	}
	s.bounds = bounds
	s.ownCgroup()
	return bounds, nil
}

// ownCgroup makes of the directory that targets begin in one that leads nowhere. While the kernel opens what a target executes, /proc/self/fd still has
// what is open here: from a directory of the caller's, ".." would lead to all that he has. From a mount of its own it leads to itself, and
// nothing can be written by it. Where there is none, targets go into their cgroup by themselves.
func (s *state) ownCgroup() {
	theirs := s.starter.JoinDir
	if theirs == linux.NoCgroup || !s.box.Has(unix.CLONE_NEWNS) {
		return
	}
	s.starter.JoinDir = linux.NoCgroup
	defer unix.Close(theirs)
	var name [unix.PathMax]byte
	n, err := unix.Readlink(linux.FDPath(theirs), name[:])
	if err != nil {
		return
	}
	dir, err := unix.OpenTree(unix.AT_FDCWD, string(name[:n]), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return
	}
	var is, was unix.Stat_t
	err = unix.MountSetattr(dir, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if err != nil || unix.Fstat(dir, &is) != nil || unix.Fstat(theirs, &was) != nil || is.Dev != was.Dev || is.Ino != was.Ino {
		_ = unix.Close(dir)
		return
	}
	s.starter.JoinDir = dir
}

// loopback: without a network of its own the one that is there is the caller's.
func (s *state) loopback() error {
	if !s.box.Has(unix.CLONE_NEWNET) {
		return nil
	}
	return network.Loopback()
}

func (s *state) buildRoot() error {
	if !s.box.Has(unix.CLONE_NEWNS) {
		_, err := s.awaitBounds()
		return err
	}
	for i := range root.Steps {
		s.step = root.Steps[i].Name
		if err := root.Steps[i].Do(s.root); err != nil {
			return err
		}
	}
	return nil
}

// built reports what was really done, with the descriptors that the outside needs.
func (s *state) built() error {
	fds := s.root.Descriptors()
	if err := linux.SendFrame(sock, handoff.Encode(&s.out), fds...); err != nil {
		return fault.Of("sendmsg", "", err)
	}
	linux.CloseAll(fds)
	return nil
}

// fail tells the supervisor and ends. Nothing is retried with less.
func (s *state) fail(err error) {
	m := handoff.SetupError{Step: s.step, Op: err.Error(), Errno: uint32(unix.EIO)}
	if f, ok := err.(*fault.Error); ok {
		m.Op, m.Path, m.Errno = f.Op, f.Path, uint32(f.Errno)
	}
	_ = linux.SendFrame(sock, handoff.Encode(&m))
	exit(125)
}
