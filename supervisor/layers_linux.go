package supervisor

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

// stacks are mounts of the scratch of a box, and of those that it stands on. They are in no namespace, hold what is
// mounted below them, and can each be attached once, by the child of another box.
type stacks struct {
	mu       sync.Mutex
	below    int             // what it is to be built on, the caller's; or -1
	own      []int           // with its own scratch; guarded by mu
	base     []int           // of what is below alone; guarded by mu
	noLayers string          // as handoff.Built says
	places   []handoff.Upper // where something can be written, and where that is kept
	files    int64           // that were there at first
	closed   bool            // guarded by mu
	replaced bool            // another box goes on in its place: nobody asks what was changed. The loop's
}

// hold takes over what the child has handed out.
func (s *stacks) hold(x *built, p *plan.Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own, s.base, s.noLayers = x.own, x.base, x.NoLayers
	var fs unix.Statfs_t
	if len(s.own) > 0 && unix.Fstatfs(s.own[0], &fs) == nil {
		s.files = int64(fs.Files - fs.Ffree)
	}
	for _, u := range slices.Concat(x.Uppers, x.Places) {
		if u.Dst == "/" || slices.ContainsFunc(p.Box.Mounts, func(m handoff.Mount) bool { return m.Dst == u.Dst && IsPlace(&m) }) {
			s.places = append(s.places, u)
		}
	}
}

// IsPlace says whether an entry of a mount table is a place where something can be written that is no tree of the caller's.
// One that stands for what is hidden is none.
func IsPlace(m *handoff.Mount) bool {
	switch m.Kind {
	case handoff.MountOverlay:
		return true
	case handoff.MountScratch, handoff.MountTmpfs:
		return !m.ReadOnly && m.Mode&0o222 != 0
	}
	return false
}

func (s *stacks) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	closeAll(s.own)
	closeAll(s.base)
	s.own, s.base, s.closed = nil, nil, true
}

// Layer is what was written in a sandbox, in memory.
type Layer struct {
	Places []handoff.Upper
	Files  int64 // that were in it at first
	// Own are the mounts by which others can stand on it. They are the caller's from here on.
	Own []int
}

// NoLayers is why nothing can stand on what is written in the sandbox: the call that failed. Empty: something can.
func (s *Sandbox) NoLayers() string {
	switch {
	case !s.box.plan.Box.HandOut:
		return "mount namespace"
	case s.box.plan.Box.Root.ReadOnly, s.box.fellBack.RootReadOnly, s.box.fellBack.OverlayReadOnly:
		return "overlay"
	}
	return s.box.stacks.noLayers
}

// TakeBase gives away the mounts of what the sandbox stands on.
func (s *Sandbox) TakeBase() []int {
	x := &s.box.stacks
	x.mu.Lock()
	defer x.mu.Unlock()
	defer func() { x.base = nil }()
	return x.base
}

// TakeLayer gives away the mounts of what was written in the sandbox, which has to be replaced then. There are none when
// it has ended.
func (s *Sandbox) TakeLayer() *Layer {
	x := &s.box.stacks
	x.mu.Lock()
	defer x.mu.Unlock()
	defer func() { x.own = nil }()
	return &Layer{Places: x.places, Files: x.files, Own: x.own}
}

// GiveBack gives back what TakeLayer gave.
func (s *Sandbox) GiveBack(l *Layer) {
	x := &s.box.stacks
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		closeAll(l.Own)
		return
	}
	x.own = l.Own
}

// Written opens what was written in each place. Nobody may write there as long as that is read.
func (s *Sandbox) Written() (dirs map[string]int, err error) {
	x := &s.box.stacks
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.own) == 0 {
		return nil, unix.ESRCH
	}
	return OpenPlaces(x.own[0], x.places)
}

// OpenPlaces opens directories of a scratch.
func OpenPlaces(scratch int, places []handoff.Upper) (dirs map[string]int, err error) {
	dirs = map[string]int{}
	for _, u := range places {
		fd, err := openPlace(scratch, u.Dir)
		if err != nil {
			for _, fd := range dirs {
				_ = unix.Close(fd)
			}
			return nil, err
		}
		dirs[u.Dst] = fd
	}
	return dirs, nil
}

// openPlace is openUpper of what goes on to be used: its mode stays as it is.
func openPlace(scratch int, dir string) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(scratch, dir, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	fd, err := openUpper(scratch, dir, dirFlags)
	if mode := st.Mode & 0o7777; err == nil && mode&0o700 != 0o700 {
		err = unix.Fchmod(fd, mode)
	}
	return fd, err
}

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// Alone says whether nobody is inside but the init.
func (s *Sandbox) Alone() (alone bool, err error) {
	asked := make(chan struct{})
	if !s.box.do(func() {
		defer close(asked)
		if len(s.box.jobs) > 0 { // it may not have been forked yet
			return
		}
		alone, err = s.box.watch.Alone()
	}) {
		return false, unix.ESRCH
	}
	<-asked
	return alone, err
}

// CPU is what everybody inside has used until now, as far as that is seen.
func (s *Sandbox) CPU() (used time.Duration) {
	asked := make(chan struct{})
	if s.box.do(func() {
		defer close(asked)
		used = time.Duration(s.box.watch.Load().CPUMS) * time.Millisecond
	}) {
		<-asked
	}
	return used
}

// Pause stops everybody inside until resume is called. Who can't be stopped is an error. Nobody may be started meanwhile.
func (s *Sandbox) Pause(ctx context.Context) (resume func(), err error) {
	var stop func() (func(), error)
	for {
		asked, begun := make(chan struct{}), true
		if !s.box.do(func() {
			defer close(asked)
			for _, j := range s.box.jobs { // one that was asked for, and isn't there yet, would begin to run later
				begun = begun && (j.targetStarted || j.out.waited || j.out.setup != nil || j.out.exec != nil)
			}
			if begun {
				stop, err = s.box.watch.Pause()
			}
		}) {
			return nil, unix.ESRCH
		}
		if <-asked; err != nil {
			return nil, err
		}
		if begun {
			return stop()
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

// Changes says what was changed in overlays until now, and keeps it in a directory if that isn't empty. Nobody may
// write there meanwhile.
func (s *Sandbox) Changes(keep string) (*status.Changes, error) {
	x := &s.box.stacks
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.own) == 0 {
		return nil, unix.ESRCH
	}
	return s.box.changed(x.own[0], keep), nil
}

// under opens what layers have of a place, the highest first. scratch is that of the box, which has others mounted below.
func under(scratch int, box *handoff.Box, dst string) (fds []int, err error) {
	below := ""
	for _, l := range slices.Backward(box.Layers) {
		fd := -1
		if l.Src != "" {
			fd, err = openOf(&l, dst)
		} else {
			below += handoff.BelowDir + "/"
			if at := slices.IndexFunc(l.Places, func(u handoff.Upper) bool { return u.Dst == dst }); at >= 0 {
				fd, err = openPlace(scratch, below+l.Places[at].Dir)
			}
		}
		if err != nil {
			closeAll(fds)
			return nil, err
		}
		if fd >= 0 {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

// openOf opens a place of a layer that is a directory; -1 if it has nothing there.
func openOf(l *handoff.Layer, dst string) (int, error) {
	top, err := openTree(l.Src, unix.O_PATH|unix.O_DIRECTORY, l.Dev, l.Ino)
	if err != nil {
		return -1, err
	}
	defer unix.Close(top)
	fd, err := unix.Openat2(top, "./"+strings.TrimPrefix(dst, "/"), &unix.OpenHow{Flags: dirFlags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
	if err == unix.ENOENT {
		return -1, nil
	}
	return fd, err
}

// closeTrees lets go of the sides of trees.
func closeTrees(trees []changes.Tree) {
	for _, t := range trees {
		closeAll(append([]int{t.Upper, t.Lower}, t.Under...))
	}
}
