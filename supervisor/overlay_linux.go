package supervisor

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/handoff"
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
	began   time.Time
}

// coarse is the clock that file systems stamp with.
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
	k := changes.Keeping{Start: o.began, Command: redact.Redact(b.plan.Exec.Argv), Protect: b.plan.Protect}
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
		if err != nil {
			c.Trees, c.Error = append(c.Trees, inText(at.Path)), "what was changed in "+strconv.Quote(at.Path)+" can't be told: "+err.Error()
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
		lower, err := openTree(at.Path, dirFlags, at.Dev, at.Ino)
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
