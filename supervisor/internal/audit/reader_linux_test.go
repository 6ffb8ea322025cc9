package audit

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// message is one of the kernel's; what its header says of its length is sometimes wrong.
func message(kind uint16, body []byte) []byte {
	b := make([]byte, header, header+len(body))
	binary.NativeEndian.PutUint16(b[4:], kind)
	return append(b, body...)
}

// peers are a socket as one of audit, and the kernel's end of it.
func peers(t *testing.T) (near, kernel int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	must.Do(t, err)
	t.Cleanup(func() { _ = unix.Close(fds[1]) })
	return fds[0], fds[1]
}

func send(t *testing.T, fd int, b []byte) {
	t.Helper()
	must.Do(t, unix.Send(fd, b, 0))
}

// Close tells of what has come before, and of nothing else.
func TestAReaderTellsUntilItIsClosed(t *testing.T) {
	t.Parallel()
	near, kernel := peers(t)
	r := &Reader{os.NewFile(uintptr(near), "audit"), make(chan struct{})}
	for _, b := range [][]byte{
		message(typeAccess, []byte(access)), message(typeDomain, []byte(domain)),
		message(typeAccess, nil), {1, 2, 3}, message(1300, []byte(hexed)),
		message(typeDomain, []byte(stranger)), message(typeAccess, []byte(hexed)),
	} {
		send(t, kernel, b)
	}
	var paths []string
	r.Read(func(pid int) bool { return pid == 300 }, func(d Denial) { paths = append(paths, d.Path) })
	r.Close()
	if want := []string{"/usr/bin", "/a b"}; !slices.Equal(paths, want) {
		t.Errorf("told of %q, want %q", paths, want)
	}
	if _, err := r.file.Stat(); err == nil {
		t.Error("it is open")
	}
}

// One that nobody reads, and none, are ended as well.
func TestAReaderIsDiscarded(t *testing.T) {
	t.Parallel()
	near, _ := peers(t)
	r := &Reader{os.NewFile(uintptr(near), "audit"), make(chan struct{})}
	r.Discard()
	if _, err := r.file.Stat(); err == nil {
		t.Error("it is open")
	}
	(*Reader)(nil).Discard()
	(*Reader)(nil).Close()
}

func TestTheSettingsAreAskedFor(t *testing.T) {
	t.Parallel()
	status := func(enabled uint32) []byte {
		return binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, 1), enabled)
	}
	for name, c := range map[string]struct {
		reply []byte
		on    bool
		fails bool
	}{
		"on":            {message(auditGet, status(1)), true, false},
		"on for good":   {message(auditGet, status(2)), true, false},
		"off":           {message(auditGet, status(0)), false, false},
		"an error":      {message(unix.NLMSG_ERROR, make([]byte, 20)), false, true},
		"too short":     {message(auditGet, status(1)[:7]), false, true},
		"nobody speaks": {nil, false, true},
	} {
		dir := t.TempDir()
		socket := func(name string) (int, *unix.SockaddrUnix) {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			must.Do(t, err)
			t.Cleanup(func() { _ = unix.Close(fd) })
			at := &unix.SockaddrUnix{Name: filepath.Join(dir, name)}
			must.Do(t, unix.Bind(fd, at))
			return fd, at
		}
		near, back := socket("n")
		kernel, at := socket("k")
		if c.reply != nil {
			must.Do(t, unix.Sendto(kernel, c.reply, 0, back))
		}
		if on, err := ask(near, at); on != c.on || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v", name, on, err)
		}
		b := make([]byte, 64)
		n, err := unix.Read(kernel, b)
		if err != nil || n != header || binary.NativeEndian.Uint32(b) != header ||
			binary.NativeEndian.Uint16(b[4:]) != auditGet || binary.NativeEndian.Uint16(b[6:]) != unix.NLM_F_REQUEST {
			t.Errorf("%s: asked by % x, %v", name, b[:max(n, 0)], err)
		}
		if _, err := ask(near, &unix.SockaddrUnix{Name: filepath.Join(dir, "none")}); err == nil {
			t.Errorf("%s: nobody was asked, and it is known", name)
		}
	}
}
