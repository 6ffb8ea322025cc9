package tree

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

func mebibytes(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

// fill writes so many MiB, and maps nothing.
func fill(fd, n int) error {
	piece := make([]byte, 1<<20)
	for range n {
		for left := piece; len(left) > 0; {
			wrote, err := unix.Write(fd, left)
			if err != nil {
				return err
			}
			left = left[wrote:]
		}
	}
	return nil
}

// helpMemfd writes so many MiB to a memfd, keeps two descriptors of it and maps none.
func helpMemfd(args []string) {
	fd, err := unix.MemfdCreate("not mapped", unix.MFD_CLOEXEC)
	check(err)
	check(fill(fd, mebibytes(args[0])))
	_, err = unix.Dup(fd)
	check(err)
	fmt.Println("ready")
	forever()
}

// helpScratch mounts a tmpfs at a directory, says so, writes so many MiB to a
// file there, deletes and keeps it, and has so many processes map it.
func helpScratch(args []string) {
	check(unix.Mount("tmpfs", args[0], "tmpfs", 0, ""))
	file, err := os.Create(filepath.Join(args[0], "file"))
	check(err)
	check(os.Remove(file.Name()))
	fmt.Println("there")
	check(fill(int(file.Fd()), mebibytes(args[1])))
	startMappers(file, mebibytes(args[2]), args[1])
	fmt.Println("ready")
	forever()
}

// scratch is what fstatfs says of a directory inside.
func (r *run) scratch(dir string) func() int64 {
	r.Helper()
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/root%s", r.cmd.Process.Pid, dir), unix.O_PATH|unix.O_CLOEXEC, 0)
	r.must(err)
	r.Cleanup(func() { unix.Close(fd) })
	return func() int64 {
		var fs unix.Statfs_t
		if unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.TMPFS_MAGIC {
			return -1
		}
		return int64(fs.Blocks-fs.Bfree) * int64(fs.Bsize)
	}
}

func (r *run) walked(need Need) Sample {
	r.Helper()
	need.PSSAbove, need.Memfds = -1, WholeWalk
	s, err := r.tree.Sample(need)
	r.must(err)
	if !s.Walked {
		r.Fatalf("%+v", s)
	}
	return s
}

const (
	overhead = 60 << 20 // what the helpers take besides
	rounding = 64 << 10 // a kB of each process
)

func TestAMemfdThatNobodyMapsIsInNoPSS(t *testing.T) {
	r := started(t, "memfd", "100")
	s := r.walked(Need{})
	if s.RSS > overhead || s.PSS > overhead {
		t.Errorf("it is mapped: %+v", s)
	}
	if s.Memfds != 100<<20 || s.Memory() != s.PSS+100<<20-s.PSSShmem {
		t.Errorf("%+v", s)
	}
	walk, err := NewFromPID(r.cmd.Process.Pid)
	r.must(err)
	defer walk.Close()
	if s, err := walk.Sample(Need{Memfds: PartWalk}); err != nil || s.Memfds != 100<<20 || !s.Walked {
		t.Errorf("by a walk through processes: %+v, %v", s, err)
	}
}

func TestAMemfdThatManyHoldAndMapCountsOnce(t *testing.T) {
	r := started(t, "share", "3", "100") // a fourth one holds it
	s := r.walked(Need{})
	if s.Memfds != 100<<20 || s.PSSShmem < 100<<20-rounding {
		t.Errorf("not held, or not mapped: %+v", s)
	}
	if n := s.Memory(); n > s.PSS+rounding || n < 100<<20 || n > 100<<20+overhead {
		t.Errorf("%d MiB: %+v", n>>20, s)
	}
	if p := r.tree.Biggest(); p.Bytes < 90<<20 || p.Bytes > s.Memory() {
		t.Errorf("biggest: %+v", p)
	}
}

func TestAFileOfTheScratchThatIsMappedCountsOnce(t *testing.T) {
	dir := t.TempDir()
	r := namespace(t, nil, "scratch", dir, "100", "2")
	r.begin()
	r.expect("there")
	bytes := r.scratch(dir)
	r.expect("ready")
	s := r.walked(Need{Scratch: bytes()})
	if s.Scratch < 100<<20 || s.PSSShmem < 100<<20-rounding {
		t.Errorf("not written, or not mapped: %+v", s)
	}
	// Deleted and kept open, as a memfd is.
	if n := s.Memory(); s.Memfds != 0 || n < 100<<20 || n > 100<<20+overhead {
		t.Errorf("%d MiB: %+v", n>>20, s)
	}
}

// memfd is one of this process, as a link that a fake proc can have.
func (f *fakeProc) memfd(size int64) (link string) {
	f.Helper()
	fd, err := unix.MemfdCreate("fake", unix.MFD_CLOEXEC)
	must.Do(f, err)
	f.Cleanup(func() { unix.Close(fd) })
	must.Do(f, unix.Fallocate(fd, 0, 0, size))
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
}

// hold makes the descriptors of a process.
func (f *fakeProc) hold(pid int, links ...string) {
	f.Helper()
	dir := filepath.Join(f.dir, strconv.Itoa(pid), "fd")
	must.Do(f, os.Mkdir(dir, 0o755))
	for i, link := range links {
		must.Do(f, os.Symlink(link, filepath.Join(dir, strconv.Itoa(i))))
	}
}

func TestOtherDescriptorsAreNotCountedAsMemfds(t *testing.T) {
	f := newFakeProc(t)
	for pid := int32(2); pid < 6; pid++ {
		f.put(stat{pid: pid, ppid: 1})
	}
	deleted, err := os.CreateTemp(t.TempDir(), "")
	must.Do(t, err)
	defer deleted.Close()
	must.Do(t, fill(int(deleted.Fd()), 1))
	must.Do(t, os.Remove(deleted.Name()))
	one, two := f.memfd(1<<20), f.memfd(3<<20)
	f.hold(1, f.memfd(64<<20)) // of the sandbox
	f.hold(2, os.DevNull, "/proc/self/exe", one, one, "/nowhere")
	f.hold(4, fmt.Sprintf("/proc/self/fd/%d", deleted.Fd()), two, one)
	f.hold(5)
	s, err := f.tree.Sample(Need{PSSAbove: NoPSS, Memfds: PartWalk})
	if err != nil || !s.Walked || s.Memfds != 4<<20 {
		t.Errorf("%+v, %v", s, err)
	}
	if big := f.tree.Biggest(); big.PID != 4 || big.Bytes != 3<<20 {
		t.Errorf("biggest: %+v", big)
	}
	f.put(stat{pid: 4, ppid: 1}, 4096) // all of which may be shared
	f.sample(-1)
	if big := f.tree.Biggest(); big.PID != 4 || big.Bytes != 4<<20 {
		t.Errorf("biggest, when it is mapped: %+v", big)
	}
	f.remove(4)
	if s := f.sample(NoPSS); s.Walked || s.Memfds != 4<<20 {
		t.Errorf("no walk: %+v", s)
	}
	s, err = f.tree.Sample(Need{PSSAbove: NoPSS, Memfds: WholeWalk})
	if err != nil || s.Memfds != 1<<20 {
		t.Errorf("closed: %+v, %v", s, err)
	}
}

func TestProcessesThatCanNotBeLookedIntoAreLeftOut(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EACCES, unix.EPERM, unix.ESRCH, unix.ENOENT} {
		if !notReadable(errno) {
			t.Error(errno)
		}
	}
	if notReadable(unix.EMFILE) || notReadable(unix.EIO) {
		t.Error("something else is wrong")
	}
	f := newFakeProc(t)
	f.put(stat{pid: 2, ppid: 1})
	f.write(filepath.Join(f.dir, "2", "fd"), "no directory")
	if _, err := f.tree.Sample(Need{Memfds: PartWalk}); err == nil {
		t.Error("no error")
	}
}

func TestAWalkInPartsFindsWhatOneDoes(t *testing.T) {
	f := newFakeProc(t)
	var all int64
	const processes, each = 3, 400 // more names than a buffer has room for
	for pid := 2; pid < 2+processes; pid++ {
		f.put(stat{pid: int32(pid), ppid: 1})
		links := make([]string, each)
		for i := range links {
			links[i] = os.DevNull
		}
		size := int64(pid) << 16
		links[each/2], links[each-1] = f.memfd(size), f.memfd(size)
		all += 2 * size
		f.hold(pid, links...)
	}
	f.sample(NoPSS)
	parts, last := 0, int64(0)
	for end := false; !end; parts++ {
		var err error
		if end, err = f.tree.walkPart(100); err != nil || parts > processes*each {
			t.Fatal(parts, err)
		}
		if n := f.tree.memfds.bytes(); n < last {
			t.Errorf("from %d to %d", last, n)
		} else {
			last = n
		}
	}
	if last != all || parts <= processes {
		t.Errorf("%d of %d in %d parts", last, all, parts)
	}
	f.remove(4)
	f.sample(NoPSS)
	if end, err := f.tree.walkPart(math.MaxInt); !end || err != nil || f.tree.memfds.bytes() != all-2*4<<16 {
		t.Errorf("after the end of one: %d, %v", f.tree.memfds.bytes(), err)
	}
}
