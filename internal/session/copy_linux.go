package session

import (
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
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		name, err := url.PathUnescape(path.Base(from.path))
		if err != nil || name == "" || strings.Contains(name, "/") {
			return &fs.PathError{Op: "create", Path: name, Err: fs.ErrInvalid}
		}
		to = filepath.Join(to, name)
	}
	r, w := io.Pipe()
	get := from.path
	if what.directory() {
		get += "?tar"
	}
	go func() { w.CloseWithError(from.client.Get(ctx, get, w)) }()
	defer r.Close()
	if what.directory() {
		return unpack(r, to)
	}
	mode, err := strconv.ParseUint(what.Mode, 8, 32)
	if err != nil {
		return err
	}
	if what.Type == "link" {
		mode = 0o666 // less the umask
	}
	return create(to, fs.FileMode(mode), r)
}

func create(name string, mode fs.FileMode, from io.Reader) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode&0o777)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// unpack makes what came. It says which links it has left out.
func unpack(from io.Reader, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
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
