package cgroup

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// Remove kills what is left in the group, waits for its end, two seconds at most, and
// removes the directories and whatever else Make made. It closes every descriptor
// of the group's, whatever happened. A second call does nothing.
func (g *Group) Remove() error {
	g.mu.Lock()
	gone := g.gone
	g.gone = true
	g.mu.Unlock()
	if gone {
		return nil
	}
	g.oom.close() // the end of the directory would wake it
	defer g.close()
	until := time.Now().Add(patience)
	var first error
	keep := func(e *Error) {
		if e != nil && first == nil {
			first = e
		}
	}
	var full []*dir // mostly none, and then nothing else needs to be asked
	for _, d := range slices.Backward(g.dirs) {
		if err := d.rmdir(); err == unix.EBUSY {
			full = append(full, d)
		} else if err != nil {
			keep(failed(g.source, "rmdir", d.path, err))
		}
	}
	if len(full) > 0 {
		if err := g.kill(until); err != nil {
			keep(asError(g.source, "kill", g.Path(), err))
		}
	}
	for _, d := range full {
		if err := d.removeTree(g.version, until); err != nil {
			keep(asError(g.source, "rmdir", d.path, err))
		}
	}
	if g.undo != nil {
		keep(g.undo())
	}
	return first
}

func asError(source Source, op, name string, err error) *Error {
	e, ok := err.(*Error)
	if !ok {
		return failed(source, op, name, err)
	}
	e.Source = cmp.Or(e.Source, source)
	return e
}

// rmdir removes the directory by its name in the one that it was made in. That it
// is gone already is as good.
func (d *dir) rmdir() error {
	if err := unix.Unlinkat(d.parent.fd, d.name, unix.AT_REMOVEDIR); err != unix.ENOENT {
		return err
	}
	return nil
}

// removeTree removes a directory whose processes were killed, and those in it.
func (d *dir) removeTree(version int, until time.Time) error {
	if version == 2 {
		if err := d.await("populated 0", until); err != nil {
			return err
		}
	}
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		err := d.rmdir()
		if err != unix.EBUSY {
			return err
		}
		if d.fd < 0 {
			if d.fd, err = openAt(d.parent.fd, d.name, flagsDir); err != nil {
				return failed("", "open", d.path, err)
			}
		}
		below, err := d.children()
		if err != nil {
			return err
		}
		for _, name := range below {
			c := d.child(name)
			err := c.killAll(nil, until)
			if err == nil {
				err = c.removeTree(version, until)
			}
			c.close()
			if err != nil {
				return err
			}
		}
		if time.Now().After(until) {
			return failed("", "rmdir", d.path, unix.EBUSY)
		}
		if len(below) == 0 {
			// v1 has no event for the last process that is on its way out; and a
			// dead one may hold the directory for a moment longer than the event says.
			time.Sleep(pause)
		}
	}
}

// children are the names of the directories in it.
func (d *dir) children() (names []string, err error) {
	fd, err := d.open(".", flagsDir)
	if err != nil {
		return nil, failed("", "open", d.path, err)
	}
	defer unix.Close(fd)
	var buf [4096]byte
	for e, err := range linux.Dirents(fd, buf[:]) {
		if err != nil {
			return names, failed("", "getdents64", d.path, err)
		}
		if e.Type == unix.DT_DIR {
			names = append(names, string(e.Name))
		}
	}
	return names, nil
}

// sweepPatience bounds what a start may wait for the leftovers of others. What
// does not die until then stays for the next.
const sweepPatience = 100 * time.Millisecond

// sweepSiblings is how many directories each start looks at. Where there are more, one
// start in so many looks, at all of them: a start costs the same beside any number of others.
const sweepSiblings = 16

// sweepClosely is of how many of those it is found out, on average, whether the number of their owner is
// somebody else's by now: that costs a look into /proc, where many starts at once are in each other's way.
const sweepClosely = 4

// sweep removes what is left in a directory of runs whose owner is gone, killed most likely, with what is
// still in there. judged are the names that need no look, since another hierarchy of v1 has them too; it adds
// those that stay.
//
// Only owners in the own pid namespace and time namespace can be judged, and what
// can't be judged stays. Two sweeps at once don't disturb each other: each finds gone what the
// other removed.
func (h *here) sweep(in *dir, judged *[]string) {
	var st unix.Stat_t // a cgroup has a link for each directory in it, and two more
	if unix.Fstat(in.fd, &st) != nil || st.Nlink == 2 || st.Nlink > 2 && rand.Uint64N(uint64(st.Nlink)-2) >= sweepSiblings {
		return
	}
	all, _ := in.children()
	var dead []string
	for _, name := range all {
		o, ok := parseName(name)
		if !ok || slices.Contains(*judged, name) {
			continue
		}
		if h.dead(in, o, name, rand.IntN(len(all)) < sweepClosely) {
			dead = append(dead, name)
		} else {
			*judged = append(*judged, name)
		}
	}
	if len(dead) > 0 {
		in.removeLeft(dead, time.Now().Add(sweepPatience))
	}
}

// removeLeft removes directories of runs that nobody owns any more.
func (d *dir) removeLeft(names []string, until time.Time) {
	version := 1
	if kind, err := d.kind(); err == nil && kind == unix.CGROUP2_SUPER_MAGIC {
		version = 2
	}
	for _, name := range names {
		left := d.child(name)
		if left.rmdir() != unix.EBUSY {
			continue
		}
		_ = left.write("pids.max", "0")
		if left.write("cgroup.kill", "1") == nil || left.killAll(nil, until) == nil {
			_ = left.removeTree(version, until)
		}
		left.close()
	}
}

// dead says that the owner of a directory is certainly gone. Its number is asked of the
// kernel, which takes it in the own pid namespace; /proc may show another one. A number that
// is in use is the owner's when the directory is locked: a lock ends with its process. Only
// without one, as in the moment before it is taken and by versions that took none, is /proc asked
// whether the number is another's by now. Not closely, a number that is in use is the owner's.
func (h *here) dead(in *dir, o owner, name string, closely bool) bool {
	if o.spaces != h.owner.spaces || h.owner.spaces == 0 || o == h.owner {
		return false
	}
	if unix.Kill(o.pid, 0) == unix.ESRCH {
		return true
	}
	if !closely {
		return false
	}
	if fd, err := openAt(in.fd, name, flagsDir); err == nil {
		defer unix.Close(fd)
		if !locks(fd) {
			return false
		}
	}
	_, start, ok := h.process(o.pid)
	return ok && start != o.start
}
