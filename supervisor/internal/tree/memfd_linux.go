package tree

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// memfds is what is known of files on the kernel's own tmpfs, which no
// path leads to, as far as processes of the tree have descriptors of them.
type memfds struct {
	dev uint64 // that tmpfs; 0: not asked yet

	// The walk that goes on. It can take many samples when there are very many
	// descriptors: nobody would be watched while it lasts.
	seen   map[uint64]struct{} // by inode
	sum    int64
	on     []holder
	at     identity // next
	offset int64    // in its descriptors

	total int64 // of the last walk that came to its end
	found []holder

	stat unix.Statx_t
}

// holder is who was the first to be found with a descriptor of some memfds.
type holder struct {
	identity
	bytes int64
}

// partSize is how many descriptors are looked at in one part of a walk: 1 to 10
// ms. With some more, because they are listed by the buffer.
const partSize = 1024

// bytes is what is held. A walk that goes on may have found more already.
func (m *memfds) bytes() int64 { return max(m.total, m.sum) }

// of is what is on the account of a process.
func (m *memfds) of(p *process) int64 {
	for i := range m.found {
		if h := &m.found[i]; h.pid == p.pid && h.start == p.start {
			return h.bytes
		}
	}
	return 0
}

// walkMemfds looks at the descriptors of everybody who is in the table.
func (t *Tree) walkMemfds(s *Sample, whole bool) error {
	began, busy := time.Now(), linux.ThreadTime()
	part := partSize
	if whole {
		part = math.MaxInt
		t.memfds.restart()
	}
	var err error
	s.Walked, err = t.walkPart(part)
	// The clock bounds what comes of a change of the thread.
	s.walkCost = min(max(linux.ThreadTime()-busy, 0), time.Since(began))
	return err
}

// walkPart goes on with the walk, and says whether it has come to its end.
func (t *Tree) walkPart(descriptors int) (end bool, err error) {
	m := &t.memfds
	if !m.findDevice() {
		return true, nil
	}
	for i := range t.cur {
		p := &t.cur[i]
		if p.root || p.dead() || p.pid < m.at.pid {
			continue
		}
		id := identity{p.pid, p.start}
		if m.at != id {
			m.at, m.offset = id, 0
		}
		if descriptors <= 0 {
			return false, nil
		}
		n, err := m.descriptors(&t.reader, p, descriptors)
		if err != nil && !notReadable(err) {
			return false, fmt.Errorf("read %d/fd in proc: %w", p.pid, err)
		}
		if m.offset > 0 {
			return false, nil
		}
		m.at.pid++ // whoever comes next
		descriptors -= n
	}
	m.total = m.sum
	m.found, m.on = m.on, m.found
	m.restart()
	return true, nil
}

func (m *memfds) restart() {
	clear(m.seen)
	m.sum, m.on, m.at, m.offset = 0, m.on[:0], identity{}, 0
}

// findDevice finds the number of the kernel's own tmpfs by a memfd of our own.
// Whoever may not make one, or not look at it, can't tell.
func (m *memfds) findDevice() bool {
	if m.dev != 0 {
		return true
	}
	// Since Linux 6.3 a host can insist on the seal, which older kernels don't know.
	fd, err := unix.MemfdCreate("", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO, &m.stat) != nil {
		return false
	}
	m.dev = unix.Mkdev(m.stat.Dev_major, m.stat.Dev_minor)
	m.seen = map[uint64]struct{}{}
	return true
}

// descriptors looks at no more descriptors of a process than it is told,
// from m.offset on. That is 0 again when those were all.
func (m *memfds) descriptors(r *reader, p *process, limit int) (n int, err error) {
	from := m.offset
	m.offset = 0
	dir, err := r.open(p.thread(), "fd", flagsDir)
	if err != nil {
		return 0, err
	}
	defer unix.Close(dir)
	if from > 0 {
		if _, err := unix.Seek(dir, from, unix.SEEK_SET); err != nil {
			return 0, err
		}
	}
	for e, err := range linux.Dirents(dir, r.room()) {
		if err != nil {
			return n, err
		}
		if m.look(dir, e.Name) {
			m.add(p)
		}
		if n++; n >= limit {
			m.offset = e.Next
			break
		}
	}
	return n, nil
}

// look says whether a descriptor is one of a memfd, and leaves in m.stat what it is.
//
// It asks the file, and not the text of the link, which costs the same. No
// file system is to be waited for: one of the target's own could let it wait for ever.
func (m *memfds) look(dir int, name []byte) bool {
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(&name[0])),
		unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_INO|unix.STATX_NLINK|unix.STATX_BLOCKS,
		uintptr(unsafe.Pointer(&m.stat)), 0)
	// Whatever the error, it is no memfd, or is closed by now.
	return errno == 0 && m.stat.Nlink == 0 && unix.Mkdev(m.stat.Dev_major, m.stat.Dev_minor) == m.dev
}

// add counts the file in m.stat, if it is a new one.
func (m *memfds) add(p *process) {
	if _, known := m.seen[m.stat.Ino]; known {
		return
	}
	m.seen[m.stat.Ino] = struct{}{}
	bytes := int64(min(m.stat.Blocks, maxInt/512) * 512)
	m.sum += bytes
	id := identity{p.pid, p.start}
	if n := len(m.on); n > 0 && m.on[n-1].identity == id {
		m.on[n-1].bytes += bytes
	} else {
		m.on = append(m.on, holder{id, bytes})
	}
}

// notReadable: a process can't be looked into, or has ended.
func notReadable(err error) bool {
	return gone(err) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}
