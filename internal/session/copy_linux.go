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
	"github.com/confine-run/confine/internal/linux"
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
// there it goes under its own name. No link is followed on the way to it, at its end or below it: a session that writes to the
// caller's tree may have made it, and would be given what it leads to.
func upload(ctx context.Context, from string, to *place, name string) error {
	fd, err := openat(unix.AT_FDCWD, from, unix.RESOLVE_NO_SYMLINKS, 0)
	if err != nil {
		return planted(from, err)
	}
	f := os.NewFile(uintptr(fd), from)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return &config.UsageError{Msg: fmt.Sprintf("%q is neither a file nor a directory", from), Hint: "what is read from a pipe goes in by \"confine session exec ID -i -- sh -c 'cat >FILE'\""}
	}
	at := to.path
	var there stat
	if err := to.client.Do(ctx, "GET", at+"?stat", nil, &there); err == nil && there.directory() {
		at += "/" + url.PathEscape(name)
	}
	if !info.IsDir() {
		return to.client.Put(ctx, "PUT", at+"?mode=0"+strconv.FormatUint(uint64(info.Mode().Perm()), 8), f)
	}
	root, err := os.OpenRoot("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return err
	}
	defer root.Close()
	r, w := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		_, err := filetree.Pack(source{filetree.Host(root), f}, ".", w)
		w.CloseWithError(err)
	}()
	err = to.client.Put(ctx, "PUT", at+"?tar", r)
	r.Close()
	<-packed
	return err
}

// openat opens for reading what isn't a link, and waits for no writer of a FIFO.
func openat(dir int, name string, resolve, flags uint64) (int, error) {
	return linux.Openat2(dir, name, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | flags, Resolve: resolve})
}

// source is a directory of the caller's whose files somebody else may exchange while they are copied. What became a link or no file at
// all since it was looked at is as good as gone.
type source struct {
	filetree.Files
	dir *os.File
}

func (s source) open(name string, flags uint64) (*os.File, error) {
	fd, err := openat(int(s.dir.Fd()), name, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS, flags)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (s source) Open(name string) (io.ReadCloser, error) {
	f, err := s.open(name, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: cmp.Or(err, fs.ErrNotExist)}
	}
	return f, nil
}

func (s source) List(name string) ([]fs.DirEntry, error) {
	dir, err := s.open(name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.ReadDir(-1)
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
	fd, err := linux.Openat2(at, dir, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, planted(dir, err)
	}
	defer unix.Close(fd)
	return os.OpenRoot("/proc/self/fd/" + strconv.Itoa(fd))
}

// planted is an error of opening a name through no link.
func planted(name string, err error) error {
	if errors.Is(err, unix.ELOOP) {
		return &config.UsageError{Msg: fmt.Sprintf("%q is a symbolic link, or one is on the way to it, and the session may have made it", name), Hint: "name the real path", Err: err}
	}
	return &fs.PathError{Op: "open", Path: name, Err: err}
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
