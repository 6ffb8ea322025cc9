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

// openDir opens a directory and follows no link.
func openDir(dir string) (*os.Root, error) {
	at, err := linux.OpenPath(path.Clean(dir), unix.O_DIRECTORY)
	if err != nil {
		return nil, &os.PathError{Op: "open", Err: err}
	}
	defer unix.Close(at)
	return os.OpenRoot("/proc/self/fd/" + strconv.Itoa(at))
}
