package serve

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/status"
)

// runDoc asks for a sandbox with one process, which ends with it.
type runDoc struct {
	Policy    policyDoc         `json:"policy"`
	Dir       string            `json:"dir"`
	Argv      []string          `json:"argv"`
	Env       map[string]string `json:"env"`
	Stdin     octets            `json:"stdin"`
	Files     map[string]octets `json:"files"`   // written before it starts; relative names are below where it starts
	Collect   []string          `json:"collect"` // read after it has ended
	TimeLimit duration          `json:"time_limit"`
}

// ranDoc is what became of a run.
type ranDoc struct {
	resultDoc
	Sandbox *status.BoxReport `json:"sandbox"`
	Files   map[string]octets `json:"files,omitempty"`
	Missing map[string]string `json:"missing,omitempty"` // what could not be collected, and why
}

// maxCollect is the most bytes of all files that are collected.
const maxCollect = 32 << 20

// run is one process in a sandbox of its own. Both end when the client leaves.
func (s *Server) run(c *call) error {
	var d runDoc
	if err := c.read(&d); err != nil {
		return err
	}
	if c.streams() && len(d.Collect) > 0 {
		return fail(http.StatusUnprocessableEntity, codeBadRequest, "a stream of frames has no room for files that are collected").hint("ask for application/json, or open a sandbox")
	}
	x := execDoc{Argv: d.Argv, Env: d.Env, Stdin: d.Stdin, TimeLimit: d.TimeLimit}
	e, err := x.exec()
	if err != nil {
		return err
	}
	spec, err := s.spec(d.Policy, d.Dir)
	if err != nil {
		return err
	}
	spec.Argv = d.Argv
	s.stats.runs.Add(1)
	b, err := s.Manager.Create(c.Context(), c.owner, sandboxes.Request{Spec: spec})
	if err != nil {
		return err
	}
	defer b.Close(sandboxes.CauseClosed, "the run's client has left")
	base := spec.Policy.Filesystem.Chdir
	if base == "" {
		base = spec.Dir
	}
	for name, data := range d.Files {
		if err := write(b.Files(), absolute(base, name), data); err != nil {
			return err
		}
	}
	var reader *sandboxes.Reader
	p, err := b.Start(e, func(r *sandboxes.Reader) { reader = r })
	if err != nil {
		return startProblem(err)
	}
	defer reader.Close()
	if c.streams() {
		return c.follow(reader, p.Usage)
	}
	r := &ranDoc{Files: map[string]octets{}, Missing: map[string]string{}}
	result, err := collect(c.Context(), p, reader)
	if err != nil {
		return err
	}
	r.resultDoc = *result
	room := int64(maxCollect)
	for _, name := range d.Collect {
		data, err := read(b.Files(), absolute(base, name), room)
		if err != nil {
			r.Missing[name] = err.Error()
			continue
		}
		r.Files[name] = data
		room -= int64(len(data))
	}
	r.Sandbox = b.Close(sandboxes.CauseClosed, "its only process has ended").Report
	reply(c.w, http.StatusOK, r)
	return nil
}

func absolute(base, name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(base, name)
}

// write writes a file, and makes the directories that it needs.
func write(files backend.Files, name string, data []byte) error {
	w, err := create(files, name, 0o644)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return errors.Join(err, w.Close())
}

// create opens a file for writing, and makes the directories that it needs.
func create(files backend.Files, name string, perm fs.FileMode) (io.WriteCloser, error) {
	w, err := files.Create(name, perm)
	if !errors.Is(err, fs.ErrNotExist) {
		return w, err
	}
	var missing []string
	for dir := path.Dir(name); dir != "/" && dir != "."; dir = path.Dir(dir) {
		if _, err := files.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, dir)
	}
	for _, dir := range slices.Backward(missing) {
		if err := files.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return files.Create(name, perm)
}

// read reads a file of at most so many bytes.
func read(files backend.Files, name string, most int64) ([]byte, error) {
	r, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, fmt.Errorf("the files that are collected have more than %d bytes", maxCollect)
	}
	return data, err
}
