package cgroup

import (
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Remove kills what is left in the group, waits for its end, two seconds at most, and
// removes the directories and whatever else Make made. It closes every descriptor
// of the group's, whatever happened. A second call does nothing.
func (g *Group) Remove() error {
	g.mu.Lock()
	gone := g.gone
	g.mu.Unlock()
	if gone {
		return nil
	}
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
	if e.Source == "" {
		e.Source = source
	}
	return e
}

// rmdir removes the directory by its name in the one that it was made in. That it
// is gone already is as good.
func (d *dir) rmdir() error {
	if err := unix.Unlinkat(d.parent, d.name, unix.AT_REMOVEDIR); err != unix.ENOENT {
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
		below, err := d.children()
		if err != nil {
			return err
		}
		for _, name := range below {
			c, err := d.child(name)
			if err == unix.ENOENT {
				continue
			}
			if err != nil {
				return failed("", "open", path.Join(d.path, name), err)
			}
			err = c.killAll(nil, until)
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
	fd, err := openAt(d.fd, ".", flagsDir)
	if err != nil {
		return nil, failed("", "open", d.path, err)
	}
	defer unix.Close(fd)
	err = eachDir(fd, func(name []byte) { names = append(names, string(name)) })
	if err != nil {
		return nil, failed("", "getdents64", d.path, err)
	}
	return names, nil
}

// ours are those that confine made.
func ours(name []byte) bool { return strings.HasPrefix(string(name), namePrefix) }
