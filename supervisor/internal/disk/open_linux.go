package disk

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// openFiles finds what is in no directory any more: files that were removed and that a
// process still has open.
type openFiles struct {
	kernel
	proc int // root of the run's own proc
	devs []uint64
	seen map[identity]bool
}

// CountOpen counts removed files, too, for as long as a process in proc has them open. proc is
// the root of the run's own, and stays the caller's. It comes before Run.
func (w *Watchdog) CountOpen(proc int) {
	f, ok := w.trees.(*forest)
	if !ok {
		return
	}
	o := &openFiles{proc: proc, seen: map[identity]bool{}}
	for i := range f.roots {
		o.devs = append(o.devs, f.roots[i].id.dev)
	}
	w.removed = o.bytes
}

// bytes looks at every descriptor of every process. What goes away meanwhile is passed over.
func (o *openFiles) bytes() (sum int64, cost time.Duration) {
	began := linux.ThreadTime()
	clear(o.seen)
	_ = each(o.proc, ".", func(_ int, pid string) {
		if pid[0] < '0' || pid[0] > '9' {
			return
		}
		_ = each(o.proc, pid+"/fd", func(dir int, fd string) {
			o.name = append(append(o.name[:0], fd...), 0)
			if o.statx(dir, &o.name[0], 0) != nil || o.st.Nlink > 0 || o.st.Mode&unix.S_IFMT != unix.S_IFREG {
				return
			}
			if id := o.id(); slices.Contains(o.devs, id.dev) && !o.seen[id] {
				o.seen[id] = true
				sum += int64(o.st.Blocks) * 512
			}
		})
	})
	return sum, max(linux.ThreadTime()-began, 0)
}

// each calls do for every name in a directory.
func each(at int, path string, do func(dir int, name string)) error {
	fd, err := unix.Openat(at, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	for _, name := range names {
		do(fd, name)
	}
	return err
}
