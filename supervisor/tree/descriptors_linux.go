package tree

import (
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// Descriptors is how many one process has, of those that the last sample has seen: the most.
// Whom nobody may look into has none.
func (t *Tree) Descriptors() (most int64) {
	for i := range t.cur {
		if p := &t.cur[i]; !p.root && !p.dead() {
			most = max(most, t.descriptorCount(p.thread()))
		}
	}
	return most
}

// descriptorCount is the number of names in PID/fd.
func (t *Tree) descriptorCount(pid int32) (n int64) {
	fd, err := t.open(pid, "fd", flagsDir)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	for _, err := range linux.Dirents(fd, t.room()) {
		if err != nil {
			break
		}
		n++
	}
	return n
}
