package tree

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// descend fills t.pids with root and its descendants.
func (t *Tree) descend() error {
	var s stat
	if err := t.stat(t.root, &s); gone(err) || err == nil && s.start != t.born {
		return nil // nobody is left; Sample says so
	} else if err != nil {
		return err
	}
	t.pids = append(t.pids, t.root)
	for i := 0; i < len(t.pids); i++ {
		err := t.children(t.pids[i])
		if errors.Is(err, unix.ENOENT) && i == 0 {
			return t.scan() // a kernel without CONFIG_PROC_CHILDREN
		}
		if err != nil && !gone(err) {
			return fmt.Errorf("read \"/proc/%d/task/*/children\": %w", t.pids[i], err)
		}
	}
	return nil
}

// children appends the children of every thread of a process.
func (t *Tree) children(pid int32) error {
	var err error
	if t.tids, err = t.threads(pid, t.tids[:0]); err != nil {
		return err
	}
	for _, tid := range t.tids {
		// Any thread can be looked up by its own number, though it isn't listed.
		var text []byte
		t.path = appendTask(t.path[:0], tid)
		fd, e := openat(t.dir, t.path, flagsFile)
		if e == nil {
			text, e = t.all(fd)
			unix.Close(fd)
		}
		if e != nil {
			err = e
			continue
		}
		t.pids = appendChildren(t.pids, text)
	}
	return err
}

// scan fills t.pids by the parents of all processes there are.
func (t *Tree) scan() error {
	if _, err := unix.Seek(t.dir, 0, 0); err != nil {
		return fmt.Errorf("lseek in \"/proc\": %w", err)
	}
	var err error
	if t.tids, err = t.reader.list(t.dir, t.tids[:0]); err != nil {
		return fmt.Errorf("getdents64 of \"/proc\": %w", err)
	}
	parents := make([]stat, 0, len(t.tids))
	for _, pid := range t.tids {
		var s stat
		if err := t.stat(pid, &s); err == nil {
			parents = append(parents, s)
		} else if !gone(err) {
			return err
		}
	}
	t.pids = descendants(t.pids[:0], t.root, parents)
	return nil
}

// descendants appends root and everyone below it.
func descendants(pids []int32, root int32, all []stat) []int32 {
	slices.SortFunc(all, func(a, b stat) int { return int(a.ppid - b.ppid) })
	pids = append(pids, root)
	for i := 0; i < len(pids) && i <= len(all); i++ {
		at, _ := slices.BinarySearchFunc(all, pids[i], func(s stat, pid int32) int { return int(s.ppid - pid) })
		for ; at < len(all) && all[at].ppid == pids[i]; at++ {
			pids = append(pids, all[at].pid)
		}
	}
	return pids
}

// appendTask is TID/task/TID/children.
func appendTask(path []byte, tid int32) []byte {
	path = strconv.AppendInt(path, int64(tid), 10)
	path = append(path, "/task/"...)
	path = strconv.AppendInt(path, int64(tid), 10)
	return append(path, "/children\x00"...)
}
