package tree

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// rush stops everybody who wasn't stopped when last seen, with as little
// work for each as can be: against a fork bomb every microsecond counts, and the
// newest come first.
func (t *Tree) rush(newestFirst bool) error {
	for range maxPasses {
		if err := t.list(); err != nil {
			return err
		}
		fresh := 0
		if newestFirst {
			slices.Reverse(t.pids)
		}
		for _, pid := range t.pids {
			p := find(t.cur, pid)
			if pid == t.root || p != nil && (p.state == 'T' || p.state == 't') {
				continue
			}
			if _, known := slices.BinarySearch(t.rushed, pid); known {
				continue
			}
			fd, err := t.open(pid, "", flagsDir)
			if gone(err) {
				continue
			} else if err != nil {
				return fmt.Errorf("openat %d in proc: %w", pid, err)
			}
			err = send(fd, unix.SIGSTOP)
			unix.Close(fd)
			if err != nil {
				return err
			}
			fresh++
		}
		slices.Sort(t.pids)
		t.rushed = append(t.rushed[:0], t.pids...)
		if fresh == 0 {
			return nil
		}
	}
	return nil
}

// adopt remembers whom Rush stopped; with the first table after it, because
// the one before tells who was stopped already.
func (t *Tree) adopt() {
	for i := range t.cur {
		p := &t.cur[i]
		_, rushed := slices.BinarySearch(t.rushed, p.pid)
		was := find(t.prev, p.pid)
		own := was != nil && was.start == p.start && (was.state == 'T' || was.state == 't')
		if id := (identity{p.pid, p.start}); rushed && !own && !p.root && !p.dead() && !slices.Contains(t.stopped, id) {
			t.stopped = append(t.stopped, id)
		}
	}
	t.rushed = t.rushed[:0]
}
