package serve

import (
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"context"
	"encoding/json"
	"errors"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/filetree"
	"github.com/confine-run/confine/internal/sockets"
)

// entryDoc is a file as a list has it.
type entryDoc struct {
	Name     string    `json:"name"`
	Type     string    `json:"type"` // "file", "directory", "link" or "other"
	Size     int64     `json:"size"`
	Mode     string    `json:"mode"` // octal
	Modified time.Time `json:"modified"`
	// Of a link: what it says, and the type of what that leads to; empty: nothing.
	Target  string `json:"target,omitempty"`
	LeadsTo string `json:"leads_to,omitempty"`
}

func typeOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeSymlink != 0:
		return "link"
	}
	return "other"
}

// entryOf describes a file, itself.
func entryOf(files backend.Files, name string) (*entryDoc, error) {
	info, err := files.Lstat(name)
	if err != nil {
		return nil, err
	}
	mode := info.Mode()
	d := &entryDoc{Name: info.Name(), Type: typeOf(mode), Size: info.Size(), Mode: "0" + strconv.FormatUint(uint64(mode.Perm()), 8), Modified: info.ModTime().UTC()}
	if mode&fs.ModeSymlink != 0 {
		if d.Target, err = files.Readlink(name); err != nil {
			return nil, err
		}
		if info, err := files.Stat(name); err == nil {
			d.LeadsTo = typeOf(info.Mode())
		}
	}
	return d, nil
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

// readFile gives a file with ranges; of a directory a list by ?list, a tar of what is below it by ?tar, and what happens in it by ?watch.
func (s fileRoutes) readFile(c *call) error {
	files, name, done, err := s.file(c)
	if err != nil {
		return err
	}
	defer done()
	query := c.URL.Query()
	switch {
	case query.Has("stat"):
		return entry(c, http.StatusOK, files, name)
	case query.Has("list"):
		return list(c, files, name)
	case query.Has("watch"):
		return watchFiles(c, files, name, query.Has("deep") && query.Get("deep") != "0")
	case query.Has("tar"):
		c.w.Header().Set("Content-Type", "application/x-tar")
		began, err := filetree.Pack(files, name, c.prompt())
		if err != nil && began {
			panic(http.ErrAbortHandler) // after its beginning only the cut can tell
		}
		return err
	}
	info, err := files.Stat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fail(http.StatusUnprocessableEntity, codeFile, name+" is a directory").hint("ask for ?list or ?tar")
	}
	f, err := files.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	filetree.Serve(c.prompt(), c.Request, f, info.ModTime())
	return nil
}

// prompt is a response whose client takes something once a minute at least.
func (c *call) prompt() *sockets.Prompt {
	return &sockets.Prompt{ResponseWriter: c.w, Control: c.control, Wait: writeTime}
}

func entry(c *call, code int, files backend.Files, name string) error {
	d, err := entryOf(files, name)
	if err == nil {
		reply(c.w, code, d)
	}
	return err
}

func list(c *call, files backend.Files, name string) error {
	entries, err := files.List(name)
	if err != nil {
		return err
	}
	all := []*entryDoc{}
	for _, e := range entries {
		if d, err := entryOf(files, path.Join(name, e.Name())); err == nil { // else it is gone by now
			all = append(all, d)
		}
	}
	reply(c.w, http.StatusOK, map[string]any{"entries": all})
	return nil
}

// writeFile writes a file anew with what comes, makes a directory by ?dir, and unpacks a tar by ?tar.
func (s fileRoutes) writeFile(c *call) error {
	files, name, done, err := s.file(c)
	if err != nil {
		return err
	}
	defer done()
	query := c.URL.Query()
	perm, err := permOf(query.Get("mode"), 0o644)
	if err != nil {
		return err
	}
	body := c.patient()
	switch {
	case query.Has("dir"):
		err = filetree.MakeAll(files, name)
	case query.Has("tar"):
		_, err = filetree.Unpack(files, name, body, false)
	default:
		err = filetree.Write(files, name, perm, body)
	}
	if err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// permOf reads a mode.
func permOf(word string, otherwise fs.FileMode) (fs.FileMode, error) {
	if word == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(word, 8, 32)
	if err != nil || n > 0o777 {
		return 0, fail(http.StatusBadRequest, codeBadRequest, "mode is not one, such as 0644")
	}
	return fs.FileMode(n), nil
}

// makeFile makes a directory or a link, which isn't there.
func (s fileRoutes) makeFile(c *call) error {
	files, name, done, err := s.file(c)
	if err != nil {
		return err
	}
	defer done()
	var d struct {
		Type   string `json:"type"`   // "directory" or "link"
		Mode   string `json:"mode"`   // of a directory
		Target string `json:"target"` // of a link
	}
	if err := c.read(&d); err != nil {
		return err
	}
	perm, err := permOf(d.Mode, 0o755)
	switch {
	case err != nil:
	case d.Type == "directory" && d.Target == "":
		err = files.Mkdir(name, perm)
	case d.Type == "link" && d.Target != "" && d.Mode == "":
		err = files.Symlink(d.Target, name)
	default:
		err = fail(http.StatusUnprocessableEntity, codeBadRequest, "type is neither directory, with a mode, nor link, with a target").hint("PUT writes files")
	}
	if err != nil {
		return err
	}
	return entry(c, http.StatusCreated, files, name)
}

// changeFile changes the mode of a file or a directory, and then its name.
func (s fileRoutes) changeFile(c *call) error {
	files, name, done, err := s.file(c)
	if err != nil {
		return err
	}
	defer done()
	var d struct {
		Mode string `json:"mode"`
		Path string `json:"path"` // absolute, as seen inside
	}
	if err := c.read(&d); err != nil {
		return err
	}
	perm, err := permOf(d.Mode, 0)
	if err == nil && d.Path != "" && !path.IsAbs(d.Path) {
		err = fail(http.StatusUnprocessableEntity, codeBadRequest, "path is not absolute")
	}
	if err == nil && d.Mode != "" {
		err = files.Chmod(name, perm)
	}
	if err == nil && d.Path != "" {
		err, name = files.Rename(name, d.Path), d.Path
	}
	if err != nil {
		return err
	}
	return entry(c, http.StatusOK, files, name)
}

// removeFile removes a file or an empty directory; with ?recursive what is below it, too.
func (s fileRoutes) removeFile(c *call) error {
	files, name, done, err := s.file(c)
	if err != nil {
		return err
	}
	defer done()
	if c.URL.Query().Has("recursive") {
		err = filetree.RemoveAll(files, name)
	} else {
		err = files.Remove(name)
	}
	if err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// The ops of a stream that are no events of files.
const (
	watchKeepalive backend.FileOp = "keepalive"
	watchEnd       backend.FileOp = "end" // the last: the directory is gone, or the sandbox has ended
)

// watchFiles sends what happens in a directory, one event a line, until that is gone or the client is.
func watchFiles(c *call, files backend.Files, name string, deep bool) error {
	w, err := files.Watch(name, deep)
	if err != nil {
		return err
	}
	defer w.Close()
	c.begin()
	_ = c.control.Flush()
	for {
		ctx, cancel := context.WithTimeout(c.Context(), keepalive)
		events, err := w.Next(ctx)
		cancel()
		switch {
		case c.Context().Err() != nil:
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			events = []backend.FileEvent{{Op: watchKeepalive}}
		case err == io.EOF, errors.Is(err, backend.ErrClosed):
			return c.tell([]backend.FileEvent{{Op: watchEnd}})
		case err != nil:
			return nil // the cut tells
		}
		if err := c.tell(events); err != nil {
			return nil
		}
	}
}

// tell sends events. A client that takes nothing for a minute is gone.
func (c *call) tell(events []backend.FileEvent) error {
	for _, e := range events {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_ = c.control.SetWriteDeadline(time.Now().Add(writeTime))
		if _, err := c.w.Write(append(text, '\n')); err != nil {
			return err
		}
	}
	return c.control.Flush()
}
