package supervisor

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/internal/redact"
	"github.com/confine-run/confine/status"
)

// overlays are the upper directories of a run, which live in the scratch file
// system. That outlives the run's namespace for as long as we hold it.
type overlays struct {
	scratch int // its root, or -1
	uppers  []handoff.Upper
	began   time.Time // by the clock, which is never behind a stamp that a file has
}

// foreign is since when what somebody else changes in a tree is a conflict.
func (b *box) foreign() time.Time {
	if at := b.plan.Began; !at.IsZero() && at.Before(b.overlays.began) {
		return at
	}
	return b.overlays.began
}

// coarse is the clock that file systems stamp with, unless the last stamp was asked for: then the next is the finer
// clock's, and up to a tick ahead of this one.
func coarse() time.Time {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now)
	return time.Unix(now.Unix())
}

// hold takes what is needed to read the overlays when the run has ended.
func (o *overlays) hold(scratch int, uppers []handoff.Upper) error {
	o.uppers = uppers
	if scratch < 0 || len(uppers) == 0 {
		return nil
	}
	var err error
	o.scratch, err = unix.FcntlInt(uintptr(scratch), unix.F_DUPFD_CLOEXEC, 0)
	return err
}

// review reads what was written to overlays, now that nobody writes any more, and
// keeps it if that is wanted. It never changes how the run ended.
func (b *box) review() *status.Changes {
	o := &b.overlays
	if o.scratch < 0 {
		return nil
	}
	defer func() { _ = unix.Close(o.scratch) }()
	if b.stacks.replaced {
		return nil
	}
	scratch := o.scratch
	b.stacks.mu.Lock()
	defer b.stacks.mu.Unlock()
	if len(b.stacks.own) > 0 { // unlike the other it holds what is mounted below
		scratch = b.stacks.own[0]
	}
	return b.changed(scratch, b.plan.Keep)
}

// changed reads what was written to overlays until now.
func (b *box) changed(scratch int, keepIn string) *status.Changes {
	o := &b.overlays
	var c status.Changes
	lost, deep := 0, 0 // changes that are too many to be kept, or have paths that are too long
	k := changes.Keeping{Start: b.foreign(), Command: redact.Redact(b.plan.Exec.Argv), Protect: b.plan.Protect}
	for i := range b.plan.Overlays {
		at := &b.plan.Overlays[i]
		tree, err := o.open(scratch, &b.plan.Box, at)
		if tree == nil && err == nil {
			continue // it was never made
		}
		var set *changes.Set
		if err == nil {
			defer closeTrees([]changes.Tree{*tree})
			set, err = changes.Read(*tree, changes.Limits{})
		}
		if err == nil {
			err = b.beneathMounts(at, set)
		}
		if err != nil {
			c.Cause = &changes.TreeError{Path: at.Path, Err: err}
			text, _ := hint.Split(c.Cause)
			c.Trees, c.Error = append(c.Trees, inText(at.Path)), text
			return &c
		}
		tell(&c, at.Path, set)
		lost, deep = lost+set.Truncated, deep+set.Deep
		k.Trees, k.Sets = append(k.Trees, *tree), append(k.Sets, set)
	}
	if keepIn == "" || c.Counts == (status.ChangeCounts{}) {
		return &c
	}
	id, partly, err := keep(keepIn, k)
	c.RunID, c.Kept = id, err == nil
	if c.Error = missing(lost, deep, partly); err != nil {
		c.Error = "the changes could not be kept: " + err.Error()
	}
	return &c
}

// beneathMounts refuses what no process inside could have changed: what lies at or below something else that is mounted in the overlay, such as
// what hides a file, and what that lies in. A snapshot that somebody has made by hand can have it.
func (b *box) beneathMounts(at *plan.Overlay, set *changes.Set) error {
	within := func(path, dir string) bool {
		return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
	}
	for i := range b.plan.Box.Mounts {
		m := &b.plan.Box.Mounts[i]
		if m.Dst == at.Dst || !within(m.Dst, at.Dst) || m.Ino == 0 && (m.Kind == handoff.MountMask || m.Kind == handoff.MountReadOnly) || m.Kind == handoff.MountPin {
			continue
		}
		for j := range set.Changes {
			c := &set.Changes[j]
			gone := c.Kind == changes.Deleted || c.Was != changes.Absent && c.Was != c.Type
			if within(filepath.Join(at.Dst, c.Path), m.Dst) || gone && within(m.Dst, filepath.Join(at.Dst, c.Path)) {
				return &changes.WallError{Path: c.Path}
			}
		}
	}
	return nil
}

// missing says what a kept run lacks: changes that were too many, have paths that are too
// long, or are of something that couldn't be read.
func missing(lost, deep, partly int) string {
	var all []string
	if lost > 0 {
		all = append(all, "at least "+strconv.Itoa(lost)+" changes were too many to be kept")
	}
	if deep > 0 {
		all = append(all, "changes with paths that are too long for the system could not be kept: at least "+strconv.Itoa(deep))
	}
	if partly > 0 {
		all = append(all, "changes that could not be kept whole, and can't be applied: "+strconv.Itoa(partly))
	}
	return strings.Join(all, "; ")
}

// open gives the two sides of one overlay, or none if the child took a fallback
// or left it out.
func (o *overlays) open(scratch int, box *handoff.Box, at *plan.Overlay) (*changes.Tree, error) {
	for _, u := range o.uppers {
		if u.Dst != at.Dst {
			continue
		}
		upper, err := openUpper(scratch, u.Dir, dirFlags)
		if err != nil {
			return nil, err
		}
		lower, err := openLower(at)
		if err != nil {
			_ = unix.Close(upper)
			return nil, err
		}
		t := &changes.Tree{Path: at.Path, Upper: upper, Lower: lower}
		if t.Under, err = under(scratch, box, at.Dst); err != nil {
			closeTrees([]changes.Tree{*t})
			return nil, err
		}
		return t, nil
	}
	return nil, nil
}

// openLower opens the tree below an overlay.
func openLower(at *plan.Overlay) (int, error) {
	fd, err := openTree(at.Path, dirFlags, at.Dev, at.Ino)
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ESTALE:
		err = changes.ErrExchanged
	}
	return fd, err
}

// Unmoved is a *[changes.TreeError] if a tree below an overlay isn't what it was: no other box can be built on it.
func (s *Sandbox) Unmoved() error {
	for i := range s.box.plan.Overlays {
		at := &s.box.plan.Overlays[i]
		fd, err := openLower(at)
		if err != nil {
			return &changes.TreeError{Path: at.Path, Err: err}
		}
		_ = unix.Close(fd)
	}
	return nil
}

// openTree opens what the plan resolved, and nothing else that stands there now.
func openTree(path string, flags uint64, dev, ino uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	if err == unix.ENOSYS && flags&unix.O_PATH != 0 {
		fd, err = linux.OpenPath(path, int(flags)&^unix.O_PATH)
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Dev != dev || st.Ino != ino) {
		err = unix.ESTALE
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openUpper opens the top of an upper directory, which the run may have closed: its mode is
// no change, so it needs none back.
func openUpper(scratch int, name string, flags int) (int, error) {
	top, err := unix.Openat(scratch, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(top)
	if _, err := linux.OpenUp(top); err != nil {
		return -1, err
	}
	return unix.Openat(scratch, name, flags, 0)
}

// mostTold bounds each list in the report; diff shows all.
const mostTold = 1000

// tell lists the changes by their real paths.
func tell(c *status.Changes, root string, set *changes.Set) {
	c.Trees = append(c.Trees, inText(root))
	s := set.Summary
	c.Counts.Added += s.Added
	c.Counts.Modified += s.Modified
	c.Counts.Deleted += s.Deleted
	c.Counts.Mode += s.Mode
	c.Counts.Link += s.Link
	c.Bytes += s.Bytes
	c.Truncated = c.Truncated || set.Truncated+set.Deep > 0
	lists := map[changes.Kind]*[]string{changes.Added: &c.Added, changes.Modified: &c.Modified, changes.Deleted: &c.Deleted,
		changes.ModeOnly: &c.Mode, changes.Relinked: &c.Link}
	for i := range set.Changes {
		one := &set.Changes[i]
		list := lists[one.Kind]
		if len(*list) >= mostTold {
			c.Truncated = true
			continue
		}
		*list = append(*list, inText(filepath.Join(root, one.Path)))
	}
}

// inText is a path as JSON can hold it: one that isn't UTF-8 is quoted as diff quotes it. No other
// begins with a quote, for it is absolute.
func inText(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	return changes.Quote(path)
}

func keep(dir string, k changes.Keeping) (id string, partly int, err error) {
	store, err := changes.OpenStore(dir)
	if err != nil {
		return "", 0, err
	}
	defer store.Close()
	return store.Keep(k)
}

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

// stood is the last box that has tried whether anything can stand on its scratch, and found that it can. To try takes a twentieth of what a box
// costs. The answer is the kernel's, and different for users and namespaces.
var stood atomic.Pointer[tried]

type tried struct {
	by kind
	at time.Time
}

type kind struct {
	namespaces uint64
	uid, gid   uint32
}

func kindOf(c *handoff.Box) kind { return kind{c.Namespaces, c.UID, c.GID} }

// triedLately says whether a box like this one did so within a second, as long as what is known of the host is shared.
func triedLately(c *handoff.Box) bool {
	t := stood.Load()
	return t != nil && t.by == kindOf(c) && time.Since(t.at) < time.Second
}

// hold takes over what the child has handed out.
func (s *stacks) hold(x *built, p *plan.Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own, s.base, s.noLayers = x.own, x.base, x.NoLayers
	if c := &p.Box; len(s.own) > 0 && !c.Scratch.Tried {
		stood.Store(&tried{kindOf(c), time.Now()})
	}
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
	linux.CloseAll(s.own)
	linux.CloseAll(s.base)
	s.own, s.base, s.closed = nil, nil, true
}

// Layer is what was written in a sandbox, in memory.
type Layer struct {
	Places []handoff.Upper
	Files  int64 // that were in it at first
	// Own are the mounts by which others can stand on it. They are the caller's from here on.
	Own []int
}

// TakeLayer gives away the mounts of what was written in the sandbox, which has to be replaced then. There are none when

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

// Changes says what was changed in overlays until now, and keeps it in a directory if that isn't empty. Nobody may

// under opens what layers have of a place, the highest first. scratch is that of the box, which has others mounted below.
func under(scratch int, box *handoff.Box, dst string) (fds []int, err error) {
	below := ""
	for _, l := range slices.Backward(box.Scratch.Layers) {
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
			linux.CloseAll(fds)
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
		linux.CloseAll(append([]int{t.Upper, t.Lower}, t.Under...))
	}
}
