package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/filetree"
)

// stat is what the server says of a file.
type stat struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Mode string `json:"mode"`
	// LeadsTo is the type of what a link leads to.
	LeadsTo string `json:"leads_to"`
}

func (s *stat) directory() bool { return s.Type == "directory" || s.LeadsTo == "directory" }

// upload copies a file, or a directory with what is below it, into a session. Into a directory that is
// there it goes under its own name.
func upload(ctx context.Context, from string, to *place, name string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	at := to.path
	var there stat
	if err := to.client.Do(ctx, "GET", at+"?stat", nil, &there); err == nil && there.directory() {
		at += "/" + url.PathEscape(name)
	}
	if !info.IsDir() {
		f, err := os.Open(from)
		if err != nil {
			return err
		}
		defer f.Close()
		return to.client.Put(ctx, "PUT", at+"?mode=0"+strconv.FormatUint(uint64(info.Mode().Perm()), 8), f)
	}
	r, w := io.Pipe()
	go func() {
		root, err := os.OpenRoot(from)
		if err == nil {
			defer root.Close()
			_, err = filetree.Pack(filetree.Host(root), ".", w)
		}
		w.CloseWithError(err)
	}()
	defer r.Close()
	return to.client.Put(ctx, "PUT", at+"?tar", r)
}

// download copies a file or a directory out of a session. What comes is somebody else's: names stay below where it goes, and
// nothing but directories, regular files and links that stay there is made.
func download(ctx context.Context, from *place, to string) error {
	var what stat
	if err := from.client.Do(ctx, "GET", from.path+"?stat", nil, &what); err != nil {
		return err
	}
	name, err := url.PathUnescape(path.Base(from.path))
	if err != nil {
		return err
	}
	root, name, err := destination(to, name)
	if err != nil {
		return err
	}
	defer root.Close()
	r, w := io.Pipe()
	get := from.path
	if what.directory() {
		get += "?tar"
	}
	go func() { w.CloseWithError(from.client.Get(ctx, get, w)) }()
	defer r.Close()
	if what.directory() {
		return unpack(r, root, name)
	}
	mode, err := strconv.ParseUint(what.Mode, 8, 32)
	if err != nil {
		return err
	}
	if what.Type == "link" {
		mode = 0o666 // less the umask
	}
	return filetree.Write(filetree.Host(root), name, fs.FileMode(mode)&0o777, r)
}

// destination opens the directory in which something is to be made, and says by which name: to, or name if to is a directory. No link
// is followed on the way, not at the end either: a session that writes to the caller's tree may have made it.
func destination(to, name string) (root *os.Root, base string, err error) {
	dir, base := filepath.Split(filepath.Clean(to))
	if info, err := os.Lstat(to); err == nil && info.IsDir() {
		dir, base = to, name
	}
	if base == "" || base == "." || base == ".." || strings.Contains(base, "/") {
		return nil, "", &fs.PathError{Op: "create", Path: to, Err: fs.ErrInvalid}
	}
	root, err = openDir(unix.AT_FDCWD, cmp.Or(dir, "."))
	return root, base, err
}

// openDir opens a directory through no link.
func openDir(at int, dir string) (*os.Root, error) {
	fd, err := unix.Openat2(at, dir, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if errors.Is(err, unix.ELOOP) {
		return nil, &config.UsageError{Msg: fmt.Sprintf("a symbolic link is on the way to %q, and the session may have made it", dir), Hint: "name the real path", Err: err}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	return os.OpenRoot("/proc/self/fd/" + strconv.Itoa(fd))
}

// unpack makes what came. It says which links it has left out.
func unpack(from io.Reader, in *os.Root, name string) error {
	if err := in.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	at, err := in.Open(".")
	if err != nil {
		return err
	}
	defer at.Close()
	root, err := openDir(int(at.Fd()), name)
	if err != nil {
		return err
	}
	defer root.Close()
	left, err := filetree.Unpack(filetree.Host(root), ".", from, true)
	for _, name := range left {
		fmt.Fprintf(os.Stderr, "confine session: %q leads out of what is copied, and was left out\n", name)
	}
	return err
}
