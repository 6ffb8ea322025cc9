//go:build unix

package sockets

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// listenUnix opens a socket that has its mode from the beginning: it is that of the descriptor when it gets its name.
func listenUnix(path string, mode os.FileMode) (net.Listener, error) {
	short, done, err := shorten(path)
	if err != nil {
		return nil, err
	}
	defer done()
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if failed := raw.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), uint32(mode)) }); failed != nil {
			return failed
		}
		return err
	}}
	l, err := c.Listen(context.Background(), "unix", short)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(short, mode); err != nil { // what the umask took away
		return nil, errors.Join(err, l.Close())
	}
	unix := l.(*net.UnixListener)
	unix.SetUnlinkOnClose(false) // of the short name
	return &socket{unix, path}, nil
}

// socket is a listener that removes its name when it is closed.
type socket struct {
	*net.UnixListener
	path string
}

func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

func (s *socket) Close() error {
	err := s.UnixListener.Close()
	if err == nil {
		err = os.Remove(s.path)
	}
	return err
}

// Dial connects to a socket.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	short, done, err := shorten(path)
	if err != nil {
		return nil, err
	}
	defer done()
	return (&net.Dialer{}).DialContext(ctx, "unix", short)
}

// maxSocketPath is what the kernel takes in sun_path, with the zero at its end.
const maxSocketPath = 108

// shorten gives a name for a socket that fits into its address: by its directory's descriptor, where the path doesn't.
func shorten(path string) (short string, done func(), err error) {
	if len(path) < maxSocketPath || runtime.GOOS != "linux" {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	short = "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path)
	if len(short) >= maxSocketPath {
		return "", nil, errors.Join(&os.PathError{Op: "bind", Path: path, Err: syscall.ENAMETOOLONG}, dir.Close())
	}
	return short, func() { _ = dir.Close() }, nil
}

func isOwn(dir os.FileInfo) bool {
	st, ok := dir.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && dir.Mode().Perm()&0o077 == 0
}
