package session

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// stat is what the server says of a file.
type stat struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Mode string `json:"mode"`
}

// upload copies a file, or a directory with its directories and regular files, into a session. Into a directory that is
// there it goes under its own name.
func upload(ctx context.Context, from string, to *place, name string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	at := to.path
	var there stat
	if err := to.client.Do(ctx, "GET", at+"?stat", nil, &there); err == nil && there.Type == "directory" {
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
		t := tar.NewWriter(w)
		err := pack(t, from)
		w.CloseWithError(errors.Join(err, t.Close()))
	}()
	defer r.Close()
	return to.client.Put(ctx, "PUT", at+"?tar", r)
}

// pack writes the directories and regular files below a directory.
func pack(t *tar.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == "." || !e.IsDir() && !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: info.ModTime()}
		if e.IsDir() {
			h.Typeflag, h.Name, h.Size = tar.TypeDir, name+"/", 0
		}
		if err := t.WriteHeader(h); err != nil || e.IsDir() {
			return err
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.CopyN(t, f, info.Size())
		return err
	})
}

// download copies a file or a directory out of a session. What comes is somebody else's: names stay below where it goes, and
// nothing but directories and regular files is made.
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
	if what.Type == "directory" {
		get += "?tar"
	}
	go func() { w.CloseWithError(from.client.Get(ctx, get, w)) }()
	defer r.Close()
	if what.Type == "directory" {
		return unpack(r, to)
	}
	mode, err := strconv.ParseUint(what.Mode, 8, 32)
	if err != nil {
		return err
	}
	return create(os.OpenFile, to, fs.FileMode(mode), r)
}

func create(open func(string, int, fs.FileMode) (*os.File, error), name string, mode fs.FileMode, from io.Reader) error {
	f, err := open(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode&0o777)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

func unpack(from io.Reader, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for t := tar.NewReader(from); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch name := path.Clean(h.Name); h.Typeflag {
		case tar.TypeDir:
			if err := root.MkdirAll(name, 0o755); err != nil {
				return err
			}
		case tar.TypeReg:
			if err := create(root.OpenFile, name, fs.FileMode(h.Mode), t); err != nil {
				return err
			}
		}
	}
}
