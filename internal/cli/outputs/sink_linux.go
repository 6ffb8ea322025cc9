package outputs

import (
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// pathOnly is of a descriptor that only names a file.
const pathOnly = unix.O_PATH

// nameless is of a file in a directory that has no name in it.
const nameless = unix.O_TMPFILE

// openDir opens a directory and follows no link.
func openDir(dir string) (*os.Root, error) {
	at, err := linux.OpenPath(path.Clean(dir), unix.O_DIRECTORY)
	if err != nil {
		return nil, &os.PathError{Op: "open", Err: err}
	}
	defer unix.Close(at)
	return os.OpenRoot("/proc/self/fd/" + strconv.Itoa(at))
}

// widen has a pipe hold so much, if it can, before anybody reads.
func widen(fd, size int) {
	const most = 1 << 20 // what fs.pipe-max-size lets anybody have
	if now, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err == nil && now < size {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, min(size, most))
	}
}
