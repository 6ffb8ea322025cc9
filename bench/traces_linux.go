package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// traces are what runs could leave behind, beside processes.
type traces struct {
	mounts, files, cgroups, descriptors int
}

func (t traces) String() string {
	return fmt.Sprintf("%d mounts, %d files, %d cgroups, %d descriptors",
		t.mounts, t.files, t.cgroups, t.descriptors)
}

// beyond is an error naming what there is more of than before, or nil.
func (t traces) beyond(before traces) error {
	var left []error
	for _, one := range []struct {
		what        string
		now, before int
	}{
		{"mounts", t.mounts, before.mounts},
		{"files", t.files, before.files},
		{"cgroups", t.cgroups, before.cgroups},
		{"descriptors", t.descriptors, before.descriptors},
	} {
		if one.now > one.before {
			left = append(left, fmt.Errorf("%d %s left", one.now-one.before, one.what))
		}
	}
	return errors.Join(left...)
}

func (b *bench) traces() (t traces, err error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return t, err
	}
	t.mounts = bytes.Count(mounts, []byte("\n"))
	// HOME, TMPDIR and the work directory of the runs are all in there.
	if t.files, err = count(b.scratch, func(fs.DirEntry) bool { return true }); err != nil {
		return t, err
	}
	if t.cgroups, err = count("/sys/fs/cgroup", fs.DirEntry.IsDir); err != nil {
		return t, err
	}
	open, err := os.ReadDir("/proc/self/fd")
	t.descriptors = len(open)
	return t, err
}

// count counts what is below dir; a directory that isn't there has nothing.
func count(dir string, which func(fs.DirEntry) bool) (n int, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && which(e) {
			n++
		}
		return err
	})
	return n, err
}
