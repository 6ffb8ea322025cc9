package serve

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/backend"
)

// maxTarFiles is how many files a tar may have, either way.
const maxTarFiles = 100_000

// entryDoc is a file as a list has it.
type entryDoc struct {
	Name     string    `json:"name"`
	Type     string    `json:"type"` // "file", "directory", "link" or "other"
	Size     int64     `json:"size"`
	Mode     string    `json:"mode"` // octal
	Modified time.Time `json:"modified"`
}

func entryOf(info fs.FileInfo) entryDoc {
	d := entryDoc{Name: info.Name(), Type: "other", Size: info.Size(), Mode: "0" + strconv.FormatUint(uint64(info.Mode().Perm()), 8), Modified: info.ModTime().UTC()}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		d.Type = "file"
	case mode.IsDir():
		d.Type = "directory"
	case mode&fs.ModeSymlink != 0:
		d.Type = "link"
	}
	return d
}

// file is what a path names: a name inside, and whose it is.
func (s fileRoutes) file(c *call) (files backend.Files, name string, done func(), err error) {
	b, done, err := s.standing(c)
	if err != nil {
		return nil, "", nil, err
	}
	name = "/" + c.PathValue("path")
	if strings.ContainsRune(name, 0) {
		done()
		return nil, "", nil, fail(http.StatusBadRequest, codeBadRequest, "the path has a NUL byte")
	}
	return b.Files(), name, done, nil
}

// readFile gives a file with ranges; of a directory a list by ?list, and a tar of what is below it by ?tar.
func (s fileRoutes) readFile(c *call) error {
	files, name, done, err := s.file(c)
	if err != nil {
		return err
	}
	defer done()
	query := c.URL.Query()
	info, err := files.Stat(name)
	if err != nil {
		return err
	}
	switch {
	case query.Has("stat"):
		reply(c.w, http.StatusOK, entryOf(info))
		return nil
	case query.Has("list"):
		return list(c, files, name)
	case query.Has("tar"):
		c.w.Header().Set("Content-Type", "application/x-tar")
		t := &archive{files: files, to: tar.NewWriter(&prompt{c})}
		if err := t.add(name, ""); err != nil {
			return t.failed(err)
		}
		return t.to.Close()
	case info.IsDir():
		return fail(http.StatusUnprocessableEntity, codeFile, name+" is a directory").hint("ask for ?list or ?tar")
	}
	f, err := files.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if seeker, ok := f.(io.ReadSeeker); ok {
		http.ServeContent(&prompt{c}, c.Request, "", info.ModTime(), seeker)
		return nil
	}
	_, _ = io.Copy(&prompt{c}, f)
	return nil
}

// prompt is a response whose client takes something once a minute at least.
type prompt struct{ c *call }

func (p *prompt) Header() http.Header  { return p.c.w.Header() }
func (p *prompt) WriteHeader(code int) { p.c.w.WriteHeader(code) }

func (p *prompt) Write(b []byte) (int, error) {
	_ = p.c.control.SetWriteDeadline(time.Now().Add(writeTime))
	return p.c.w.Write(b)
}

func list(c *call, files backend.Files, name string) error {
	entries, err := files.List(name)
	if err != nil {
		return err
	}
	all := []entryDoc{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it is gone by now
			all = append(all, entryOf(info))
		}
	}
	reply(c.w, http.StatusOK, map[string]any{"entries": all})
	return nil
}

// archive is a tree on its way into a tar. What is no directory and no regular file is left out.
type archive struct {
	files backend.Files
	to    *tar.Writer
	n     int
}

// failed is an error of a tar: after its beginning only the cut can tell.
func (a *archive) failed(err error) error {
	if a.n > 0 {
		panic(http.ErrAbortHandler)
	}
	return err
}

func (a *archive) add(name, as string) error {
	info, err := a.files.Stat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		entries, err := a.files.List(name)
		if err != nil {
			return err
		}
		if as != "" {
			if err := a.header(&tar.Header{Typeflag: tar.TypeDir, Name: as + "/", Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}); err != nil {
				return err
			}
		}
		for _, e := range entries {
			if !e.IsDir() && !e.Type().IsRegular() {
				continue
			}
			if err := a.add(path.Join(name, e.Name()), path.Join(as, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	f, err := a.files.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if as == "" {
		as = path.Base(name)
	}
	if err := a.header(&tar.Header{Typeflag: tar.TypeReg, Name: as, Size: info.Size(), Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}); err != nil {
		return err
	}
	n, err := io.Copy(a.to, io.LimitReader(f, info.Size()))
	if err == nil && n < info.Size() { // it became shorter: what is missing is zeros
		_, err = io.CopyN(a.to, zeros{}, info.Size()-n)
	}
	return err
}

func (a *archive) header(h *tar.Header) error {
	if a.n++; a.n > maxTarFiles {
		return errors.New("more than 100,000 files")
	}
	return a.to.WriteHeader(h)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// writeFile writes a file anew with what comes, makes a directory by ?dir, and unpacks a tar by ?tar.
func (s fileRoutes) writeFile(c *call) error {
	files, name, done, err := s.file(c)
	if err != nil {
		return err
	}
	defer done()
	query := c.URL.Query()
	perm := fs.FileMode(0o644)
	if word := query.Get("mode"); word != "" {
		n, err := strconv.ParseUint(word, 8, 32)
		if err != nil || n > 0o777 {
			return fail(http.StatusBadRequest, codeBadRequest, "mode is not one, such as 0644")
		}
		perm = fs.FileMode(n)
	}
	body := &patient{c, c.Body}
	switch {
	case query.Has("dir"):
		err = makeAll(files, name)
	case query.Has("tar"):
		err = unpack(files, name, body)
	default:
		err = receive(files, name, perm, body)
	}
	if err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func receive(files backend.Files, name string, perm fs.FileMode, from io.Reader) error {
	w, err := create(files, name, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, from)
	return errors.Join(err, w.Close())
}

// makeAll makes a directory with those above it.
func makeAll(files backend.Files, name string) error {
	if info, err := files.Stat(name); err == nil && info.IsDir() {
		return nil
	}
	if parent := path.Dir(name); parent != name {
		if err := makeAll(files, parent); err != nil {
			return err
		}
	}
	if err := files.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// unpack makes the directories and regular files of a tar. Anything else in it is refused, as are names that lead out.
func unpack(files backend.Files, dir string, from io.Reader) error {
	if err := makeAll(files, dir); err != nil {
		return err
	}
	t := tar.NewReader(from)
	for n := 0; ; n++ {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			var p *problem
			if errors.As(err, &p) {
				return p
			}
			return fail(http.StatusUnprocessableEntity, codeBadRequest, "the tar: "+err.Error())
		}
		if n >= maxTarFiles {
			return fail(http.StatusUnprocessableEntity, codeBadRequest, "the tar has more than 100,000 files")
		}
		rel := path.Clean(strings.TrimSuffix(h.Name, "/"))
		if !fs.ValidPath(rel) {
			return fail(http.StatusUnprocessableEntity, codeBadRequest, "the tar: "+strconv.Quote(h.Name)+" leads out of it")
		}
		name := path.Join(dir, rel)
		switch h.Typeflag {
		case tar.TypeDir:
			err = makeAll(files, name)
		case tar.TypeReg:
			err = receive(files, name, fs.FileMode(h.Mode&0o777), t)
		default:
			err = fail(http.StatusUnprocessableEntity, codeBadRequest, "the tar: "+strconv.Quote(h.Name)+" is neither a file nor a directory")
		}
		if err != nil {
			return err
		}
	}
}

// removeFile removes a file or an empty directory; with ?recursive what is below it, too.
func (s fileRoutes) removeFile(c *call) error {
	files, name, done, err := s.file(c)
	if err != nil {
		return err
	}
	defer done()
	if c.URL.Query().Has("recursive") {
		err = removeAll(files, name)
	} else {
		err = files.Remove(name)
	}
	if err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func removeAll(files backend.Files, name string) error {
	entries, err := files.List(name)
	if err == nil {
		for _, e := range entries {
			below := path.Join(name, e.Name())
			remove := files.Remove
			if e.IsDir() {
				remove = func(name string) error { return removeAll(files, name) }
			}
			if err := remove(below); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return files.Remove(name)
}
