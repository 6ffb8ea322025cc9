package serve

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/filetree"
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
	ID      string            `json:"id"`                // of the sandbox
	Sandbox *status.BoxReport `json:"sandbox,omitempty"` // not of one that came from a pool: nobody waits for its end
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
	var request sandboxes.Request
	if err := (poolRoutes{s}).forRun(&request, &d); err != nil {
		return err
	}
	s.stats.count(c.owner, counts{runs: 1})
	b, err := s.Manager.Create(c.Context(), c.owner, request)
	if err != nil {
		return err
	}
	defer b.End(sandboxes.CauseClosed, "the run's client has left")
	base := request.Spec.Policy.Filesystem.Chdir
	if base == "" {
		base = request.Spec.Dir
	}
	for name, data := range d.Files {
		if err := filetree.Write(b.Files(), absolute(base, name), 0o644, bytes.NewReader(data)); err != nil {
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
	if end := b.End(sandboxes.CauseClosed, "its only process has ended"); end != nil {
		r.Sandbox = end.Report
	}
	r.ID = b.ID
	reply(c.w, http.StatusOK, r)
	return nil
}

func absolute(base, name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(base, name)
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
