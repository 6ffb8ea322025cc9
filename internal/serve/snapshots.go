package serve

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/snapshot"
)

// What is asked about snapshots, and to make others of a sandbox.
type snapshotRoutes struct{ *Server }

// snapshotDoc is a snapshot as it is shown.
type snapshotDoc struct {
	ID      string   `json:"id"`
	Names   []string `json:"names"`
	Holds   string   `json:"holds"` // "files", or "memory": processes are in it, too
	Created string   `json:"created"`
	Parent  string   `json:"parent,omitempty"`
	// PolicyDigest is that of the sandbox that it was made of, Places are what of it was written down.
	PolicyDigest string               `json:"policy_digest,omitempty"`
	Places       []snapshot.PlaceInfo `json:"places"`
	Layers       int                  `json:"layers"`
	Size         int64                `json:"size"`
	Left         snapshot.Left        `json:"left_out"`
	Error        string               `json:"error,omitempty"` // it can't be read
}

func docOfSnapshot(in *snapshot.Info) *snapshotDoc {
	d := &snapshotDoc{ID: in.ID, Names: append([]string{}, in.Names...), Holds: in.Holds(), Created: in.Created.UTC().Format(time.RFC3339Nano), Parent: in.Parent,
		PolicyDigest: in.PolicyDigest, Places: append([]snapshot.PlaceInfo{}, in.Places...), Layers: len(in.Layers), Size: in.Size, Left: in.Left}
	if in.Err != nil {
		d.Error = in.Err.Error()
	}
	return d
}

func (s snapshotRoutes) list(c *call) error {
	all, err := s.Manager.Snapshots(c.owner).List()
	if err != nil {
		return err
	}
	docs := []*snapshotDoc{}
	for i := range all {
		docs = append(docs, docOfSnapshot(&all[i]))
	}
	reply(c.w, http.StatusOK, map[string]any{"snapshots": docs})
	return nil
}

// take writes down the files of a sandbox.
func (s snapshotRoutes) take(c *call) error {
	b, done, err := s.standing(c)
	if err != nil {
		return err
	}
	defer done()
	var d struct {
		Name string `json:"name"`
	}
	if err := c.readOr(&d); err != nil {
		return err
	}
	in, err := b.Snapshot(c.Context(), d.Name)
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", "/v1/snapshots/"+in.ID)
	reply(c.w, http.StatusCreated, docOfSnapshot(in))
	return nil
}

// download gives a snapshot as a bundle, and what is known of it by ?stat.
func (s snapshotRoutes) download(c *call) error {
	all := s.Manager.Snapshots(c.owner)
	in, err := all.Find(c.PathValue("snapshot"))
	if err != nil {
		return err
	}
	c.w.Header().Set("ETag", strconv.Quote(in.ID))
	if c.URL.Query().Has("stat") {
		reply(c.w, http.StatusOK, docOfSnapshot(in))
		return nil
	}
	c.w.Header().Set("Content-Type", "application/x-tar")
	c.w.Header().Set("Cache-Control", "no-store")
	if c.Method == http.MethodHead {
		return nil
	}
	to := &streamed{to: c.prompt()}
	return to.failed(all.Export(c.Context(), in.ID, to))
}

// streamed is a body that may turn out to be wrong when some of it was sent.
type streamed struct {
	to io.Writer
	n  int64
}

func (s *streamed) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	s.n += int64(n)
	return n, err
}

// failed is the error of whoever wrote: after the beginning of the body, only a cut can tell of it.
func (s *streamed) failed(err error) error {
	if err != nil && s.n > 0 {
		panic(http.ErrAbortHandler)
	}
	return err
}

// upload takes a bundle, which has to be that of the ID in the path.
func (s snapshotRoutes) upload(c *call) error {
	in, made, err := s.Manager.Snapshots(c.owner).Import(c.Context(), c.PathValue("snapshot"), &steady{from: c.patient(), began: time.Now()})
	if err != nil {
		return err
	}
	code := http.StatusOK
	if made {
		code = http.StatusCreated
	}
	reply(c.w, code, docOfSnapshot(in))
	return nil
}

// An upload comes, on average, so fast, but for its beginning: who drips holds what others could have.
const (
	uploadRate  = 16 << 10 // bytes a second
	uploadStart = time.Minute
)

// steady is a body that has to come at a rate.
type steady struct {
	from  io.Reader
	began time.Time
	n     int64
}

func (s *steady) Read(b []byte) (int, error) {
	if time.Since(s.began) > uploadStart+time.Duration(s.n)*time.Second/uploadRate {
		return 0, fail(http.StatusRequestTimeout, codeBadRequest, "the bundle comes at fewer than 16 KiB a second")
	}
	n, err := s.from.Read(b)
	s.n += int64(n)
	return n, err
}

func (s snapshotRoutes) drop(c *call) error {
	if err := s.Manager.Snapshots(c.owner).Remove(c.PathValue("snapshot")); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// restore makes the files of a sandbox what they were. The policy stays that of the sandbox.
func (s snapshotRoutes) restore(c *call) error {
	b, done, err := s.standing(c)
	if err != nil {
		return err
	}
	defer done()
	var d struct {
		Snapshot string `json:"snapshot"`
	}
	if err := c.read(&d); err != nil {
		return err
	}
	if err := b.Restore(c.Context(), d.Snapshot); err != nil {
		return err
	}
	reply(c.w, http.StatusOK, docOf(b, true))
	return nil
}

// forkDoc asks for sandboxes that are as one is.
type forkDoc struct {
	Name        string            `json:"name"` // of one alone
	Labels      map[string]string `json:"labels"`
	Lifetime    *duration         `json:"lifetime"`
	IdleTimeout *duration         `json:"idle_timeout"`
}

func (s snapshotRoutes) fork(c *call) error {
	b, done, err := s.standing(c)
	if err != nil {
		return err
	}
	defer done()
	n, err := number(c, "n")
	if err != nil {
		return err
	}
	if !c.URL.Query().Has("n") {
		n = 1
	}
	var d forkDoc
	if err := c.readOr(&d); err != nil {
		return err
	}
	if err := checkLabels(d.Labels); err != nil {
		return err
	}
	if len(d.Name) > maxWord {
		return fail(http.StatusUnprocessableEntity, codeBadRequest, "the name has more than 256 bytes")
	}
	r := sandboxes.Request{Name: d.Name, Labels: d.Labels, Lifetime: defaultLifetime, Idle: defaultIdle}
	if d.Lifetime != nil {
		r.Lifetime = time.Duration(*d.Lifetime)
	}
	if d.IdleTimeout != nil {
		r.Idle = time.Duration(*d.IdleTimeout)
	}
	all, err := s.Manager.Fork(c.Context(), b, int(min(n, 1<<30)), r)
	if err != nil {
		return err
	}
	docs := []*sandboxDoc{}
	for _, b := range all {
		docs = append(docs, docOf(b, len(all) == 1))
	}
	reply(c.w, http.StatusCreated, map[string]any{"sandboxes": docs})
	return nil
}

// departureRoutes are what is asked of the server that a sandbox leaves.
type departureRoutes struct{ *Server }

// Departure is a sandbox that is about to leave, as it is shown.
type Departure struct {
	Token    string          `json:"token"`
	Snapshot string          `json:"snapshot"`
	Holds    string          `json:"holds"`  // "memory", or "files": no process is in it
	Create   json.RawMessage `json:"create"` // what asks for it, but for "from"
}

func (s departureRoutes) begin(c *call) error {
	b, err := s.box(c)
	if err != nil {
		return err
	}
	if end := b.Ended(); end != nil {
		return ended(end)
	}
	d, err := sandboxes.LeavingOf(b).Depart(c.Context())
	if err != nil {
		return err
	}
	doc := Departure{Token: d.Token, Snapshot: d.Snapshot, Holds: "files", Create: d.Origin}
	if d.Memory {
		doc.Holds = "memory"
	}
	reply(c.w, http.StatusOK, &doc)
	return nil
}

// Arrival says where one has arrived.
type Arrival struct {
	Token string `json:"token"`
	At    string `json:"at"`
}

func (s departureRoutes) arrived(c *call) error {
	b, err := s.box(c)
	if err != nil {
		return err
	}
	var d Arrival
	if err := c.read(&d); err != nil {
		return err
	}
	if len(d.At) > maxWord {
		return fail(http.StatusUnprocessableEntity, codeBadRequest, "more than 256 bytes of where it is")
	}
	if err := sandboxes.LeavingOf(b).Arrived(d.Token, d.At); err != nil {
		return err
	}
	reply(c.w, http.StatusOK, docOf(b, true))
	return nil
}

func (s departureRoutes) back(c *call) error {
	b, err := s.box(c)
	if err != nil {
		return err
	}
	if err := sandboxes.LeavingOf(b).Return(c.URL.Query().Get("token")); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
