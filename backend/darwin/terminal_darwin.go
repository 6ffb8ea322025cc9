package darwin

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
)

// terminal is one that was made for a process.
type terminal struct {
	master, slave *os.File
	name          string
	hung          atomic.Bool
	shown         chan struct{} // closed when nothing more is
	once          sync.Once
}

// openTerminal makes one that is typed on by keys, and shown on screen. Both stay the caller's.
func openTerminal(size backend.WinSize, keys, screen *os.File) (t *terminal, err error) {
	t = &terminal{shown: make(chan struct{})}
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	t.master = os.NewFile(uintptr(fd), "/dev/ptmx")
	defer func() {
		if err != nil {
			_ = t.master.Close()
		}
	}()
	name := make([]byte, 128) // on the heap, where nothing moves
	err = unix.IoctlSetInt(fd, unix.TIOCPTYGRANT, 0)
	if err == nil {
		err = unix.IoctlSetInt(fd, unix.TIOCPTYUNLK, 0)
	}
	if err == nil {
		err = unix.IoctlSetInt(fd, unix.TIOCPTYGNAME, int(uintptr(unsafe.Pointer(&name[0]))))
		runtime.KeepAlive(name)
	}
	if err == nil {
		t.name = string(name[:max(0, bytes.IndexByte(name, 0))])
		err = t.resize(size)
	}
	if err != nil {
		return nil, err
	}
	in, err := dup(keys)
	if err != nil {
		return nil, err
	}
	out, err := dup(screen)
	if err != nil {
		return nil, err
	}
	if t.slave, err = os.OpenFile(t.name, os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, err
	}
	go func() { // ends with the keys, or the terminal
		_, _ = io.Copy(t.master, in)
		_ = in.Close()
	}()
	go t.show(out)
	return t, nil
}

func dup(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// show moves what is written, until nobody has the terminal any more, or nothing is there and its process has ended.
func (t *terminal) show(out *os.File) {
	defer close(t.shown)
	defer out.Close()
	fd := int(t.master.Fd())
	buf := make([]byte, 32<<10)
	for {
		var ready unix.FdSet
		ready.Set(fd)
		n, err := unix.Select(fd+1, &ready, nil, nil, &unix.Timeval{Usec: 20_000})
		switch {
		case err == unix.EINTR:
			continue
		case err != nil, n == 0 && t.hung.Load():
			return
		case n == 0:
			continue
		}
		got, err := unix.Read(fd, buf)
		if err != nil || got <= 0 {
			return
		}
		if _, err := out.Write(buf[:got]); err != nil {
			return
		}
	}
}

func (t *terminal) resize(size backend.WinSize) error {
	return unix.IoctlSetWinsize(int(t.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
}

// close shows what is left, and ends it. None is closed already.
func (t *terminal) close() {
	if t == nil {
		return
	}
	t.hung.Store(true)
	t.once.Do(func() {
		<-t.shown
		_ = t.master.Close()
	})
}
