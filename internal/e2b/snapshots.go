package e2b

import (
	"net/http"
	"strings"
	"sync"

	"github.com/confine-run/confine/internal/sandboxes"
)

// A snapshot is a template from which sandboxes are made. Its ID is TEMPLATE/ID: what the sandbox was made from, whose policy one that is
// made from the snapshot has, and the snapshot's own.

// snapshotRoutes are what is asked about snapshots and forks.
type snapshotRoutes struct{ *Server }

// origins remember of the snapshots that were taken here what they were taken of.
type origins struct {
	mu sync.Mutex
	of map[string]origin // by the ID
}

type origin struct{ template, sandbox string }

func (o *origins) set(id string, of origin) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[string]origin{}
	}
	o.of[id] = of
}

// get gives for what wasn't taken here, or before the server began, no sandbox, and the template of those who name none.
func (o *origins) get(id string) origin {
	o.mu.Lock()
	defer o.mu.Unlock()
	if of, ok := o.of[id]; ok {
		return of
	}
	return origin{template: Base}
}

func (o *origins) drop(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.of, id)
}

// Base is the template of those who name none.
const Base = "base"

// latestTag is the only one that a snapshot has.
const latestTag = ":default"

// from finds what a word of a client's stands for: a template, and the snapshot of the owner's that is to be begun with, if any.
func (s snapshotRoutes) from(owner sandboxes.Owner, word string) (template, snapshot string) {
	word = strings.TrimSuffix(word, latestTag)
	if template, snapshot, ok := strings.Cut(word, "/"); ok {
		return template, snapshot
	}
	if s.Template(word) {
		return word, ""
	}
	if in, err := s.Manager.Snapshots(owner).Find(word); err == nil {
		return s.origins.get(in.ID).template, in.ID
	}
	return word, ""
}

// snapshotDoc is a snapshot as it is shown.
type snapshotDoc struct {
	SnapshotID string   `json:"snapshotID"`
	Names      []string `json:"names"`
}

func (s snapshotRoutes) docOf(id string, names []string) snapshotDoc {
	return snapshotDoc{s.origins.get(id).template + "/" + id, append([]string{}, names...)}
}

// take writes a sandbox down.
func (s snapshotRoutes) take(c *call) error {
	b, err := s.own(c)
	if err != nil {
		return err
	}
	var d struct {
		Name   string `json:"name"`
		Memory *bool  `json:"memory"`
	}
	if err := c.read(&d); err != nil {
		return err
	}
	if d.Memory != nil && *d.Memory && b.Policy().Isolation != "vm" {
		return &failure{http.StatusBadRequest, "the memory of processes can be had of a machine alone: without, a snapshot is of the files"}
	}
	in, err := b.Snapshot(c.Context(), strings.TrimSuffix(d.Name, latestTag))
	if err != nil {
		return err
	}
	s.origins.set(in.ID, origin{b.template, b.ID})
	reply(c.w, http.StatusCreated, s.docOf(in.ID, in.Names))
	return nil
}

// list shows the owner's, by ?sandboxID those of one sandbox, in pages as sandboxes are.
func (s snapshotRoutes) list(c *call) error {
	query := c.URL.Query()
	limit, err := limitOf(query)
	if err != nil {
		return err
	}
	all, err := s.Manager.Snapshots(c.owner).List()
	if err != nil {
		return err
	}
	from, err := following(query, len(all), "snapshot", func(i int) string { return all[i].ID })
	if err != nil {
		return err
	}
	docs := []snapshotDoc{}
	for i := range all[from:] {
		in := &all[from+i]
		if of := query.Get("sandboxID"); in.Err != nil || of != "" && of != s.origins.get(in.ID).sandbox {
			continue
		}
		if len(docs) == limit {
			c.w.Header().Set("X-Next-Token", strings.SplitN(docs[limit-1].SnapshotID, "/", 2)[1])
			break
		}
		docs = append(docs, s.docOf(in.ID, in.Names))
	}
	reply(c.w, http.StatusOK, docs)
	return nil
}

// drop removes a snapshot. Other templates are nobody's to remove.
func (s snapshotRoutes) drop(c *call) error {
	_, word := s.from(c.owner, c.PathValue("template"))
	in, err := s.Manager.Snapshots(c.owner).Find(word)
	if word == "" || err != nil {
		return &failure{http.StatusNotFound, "there is no snapshot " + c.PathValue("template")}
	}
	if err := s.Manager.Snapshots(c.owner).Remove(in.ID); err != nil {
		return err
	}
	s.origins.drop(in.ID)
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// alias says whether there is a template of a name.
func (s snapshotRoutes) alias(c *call) error {
	name := c.PathValue("alias")
	if template, from := s.from(c.owner, name); from == "" && !s.Template(template) {
		return &failure{http.StatusNotFound, "template '" + name + "' not found"}
	}
	reply(c.w, http.StatusOK, map[string]any{"templateID": name, "public": true})
	return nil
}

// forkTimeout is the life of a fork where nobody says it.
const forkTimeout = 15

// fork makes sandboxes with the files that one has now.
func (s snapshotRoutes) fork(c *call) error {
	b, err := s.own(c)
	if err != nil {
		return err
	}
	d := struct {
		Timeout int64 `json:"timeout"`
		Count   int   `json:"count"`
	}{forkTimeout, 1}
	if err := c.read(&d); err != nil {
		return err
	}
	life, err := lifetime(d.Timeout)
	if err != nil {
		return err
	}
	all, err := s.Manager.Fork(c.Context(), b.Sandbox, d.Count, sandboxes.Request{Lifetime: life})
	if err != nil {
		return err
	}
	docs := []map[string]sandboxDoc{}
	for _, made := range all {
		one := newBox(made, b.template, b.spec)
		one.uid = b.uid
		s.add(one)
		docs = append(docs, map[string]sandboxDoc{"sandbox": s.Server.docOf(one, true)})
	}
	reply(c.w, http.StatusCreated, docs)
	return nil
}
