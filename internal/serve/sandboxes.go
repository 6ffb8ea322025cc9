package serve

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/status"
)

// sandboxDoc is a sandbox as it is shown.
type sandboxDoc struct {
	ID          string            `json:"id"`
	Name        string            `json:"name,omitempty"`
	State       string            `json:"state"` // "running", "departing", "ending" or "ended"
	Created     time.Time         `json:"created"`
	Deadline    *time.Time        `json:"deadline,omitempty"` // when its lifetime is over
	IdleTimeout duration          `json:"idle_timeout"`
	Labels      map[string]string `json:"labels,omitempty"`
	Processes   int               `json:"processes"` // that run
	liveDoc
	Ended  *sandboxes.End `json:"ended,omitempty"`
	Ledger status.Ledger  `json:"ledger,omitempty"` // of one alone
}

func docOf(b *sandboxes.Sandbox, whole bool) *sandboxDoc {
	d := &sandboxDoc{ID: b.ID, Name: b.Name, State: "running", Created: b.Created.UTC(), Labels: b.Labels(), Ended: b.Ended()}
	deadline, idle := b.Deadlines()
	if !deadline.IsZero() {
		deadline = deadline.UTC()
		d.Deadline = &deadline
	}
	d.IdleTimeout = duration(idle)
	for _, p := range b.Processes() {
		if p.Report() == nil {
			d.Processes++
		}
	}
	switch {
	case d.Ended != nil:
		d.State = "ended"
	case b.Ending():
		d.State = "ending"
	case sandboxes.LeavingOf(b).Now() != nil:
		d.State = "departing"
	}
	if whole {
		d.Ledger, d.Network = b.Ledger(), networkOf(&b.Policy().Network)
	} else if d.Ended != nil {
		short := *d.Ended
		short.Report = nil
		d.Ended = &short
	}
	return d
}

// createDoc asks for a sandbox.
type createDoc struct {
	Policy      policyDoc         `json:"policy,omitempty"`
	Dir         string            `json:"dir,omitempty"`
	For         []string          `json:"for,omitempty"` // a command whose tool chain is to be visible
	Env         map[string]string `json:"env,omitempty"` // of all its processes
	Name        string            `json:"name,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Lifetime    *duration         `json:"lifetime,omitempty"`
	IdleTimeout *duration         `json:"idle_timeout,omitempty"`
	From        string            `json:"from,omitempty"` // the ID or the name of a snapshot that it begins with
}

// What a sandbox has where nobody says it.
const (
	defaultLifetime = time.Hour
	defaultIdle     = 10 * time.Minute
)

// Bounds of what a client says about a sandbox.
const (
	maxLabels = 64
	maxWord   = 256
)

func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return fail(http.StatusUnprocessableEntity, codeBadRequest, "more than 64 labels")
	}
	for k, v := range labels {
		if k == "" || len(k) > maxWord || len(v) > maxWord {
			return fail(http.StatusUnprocessableEntity, codeBadRequest, "a label that is empty or has more than 256 bytes")
		}
	}
	return nil
}

func (s *Server) request(d *createDoc) (r sandboxes.Request, err error) {
	if err := checkLabels(d.Labels); err != nil {
		return r, err
	}
	if len(d.Name) > maxWord || strings.ContainsFunc(d.Name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return r, fail(http.StatusUnprocessableEntity, codeBadRequest, "the name has more than 256 bytes, or some that can't be printed")
	}
	r = sandboxes.Request{Name: d.Name, Labels: d.Labels, From: d.From, Lifetime: defaultLifetime, Idle: defaultIdle}
	if d.Lifetime != nil {
		r.Lifetime = time.Duration(*d.Lifetime)
	}
	if d.IdleTimeout != nil {
		r.Idle = time.Duration(*d.IdleTimeout)
	}
	if r.Env, err = envOf(d.Env); err != nil {
		return r, err
	}
	own := *d
	own.From = ""
	if r.Origin, err = json.Marshal(&own); err != nil {
		return r, err
	}
	return r, poolRoutes{s}.forSandbox(&r, d)
}

func (s *Server) create(c *call) error {
	var d createDoc
	if err := c.read(&d); err != nil {
		return err
	}
	r, err := s.request(&d)
	if err != nil {
		return err
	}
	b, err := s.Manager.Create(c.Context(), c.owner, r)
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", "/v1/sandboxes/"+b.ID)
	reply(c.w, http.StatusCreated, docOf(b, true))
	return nil
}

// list shows those of the owner, with ?state= and ?label=K=V; with ?usage=1, what each uses.
func (s *Server) list(c *call) error {
	all := []*sandboxDoc{}
	query := c.URL.Query()
	wanted := map[string]string{}
	for _, l := range query["label"] {
		if k, v, ok := strings.Cut(l, "="); ok {
			wanted[k] = v
		}
	}
next:
	for _, b := range s.Manager.List(c.owner) {
		d := docOf(b, false)
		if state := query.Get("state"); state != "" && d.State != state {
			continue
		}
		for k, v := range wanted {
			if d.Labels[k] != v {
				continue next
			}
		}
		if query.Get("usage") == "1" {
			d.look(b)
		}
		all = append(all, d)
	}
	reply(c.w, http.StatusOK, map[string]any{"sandboxes": all})
	return nil
}

// box is the sandbox that a path names.
func (s *Server) box(c *call) (*sandboxes.Sandbox, error) {
	return s.Manager.Get(c.owner, c.PathValue("id"))
}

// standing is the sandbox that a path names, in use until done is called, unless it has ended.
func (s *Server) standing(c *call) (b *sandboxes.Sandbox, done func(), err error) {
	if b, err = s.box(c); err != nil {
		return nil, nil, err
	}
	if end := b.Ended(); end != nil {
		return nil, nil, ended(end)
	}
	if sandboxes.LeavingOf(b).Now() != nil {
		return nil, nil, fail(http.StatusConflict, codeConflict, sandboxes.ErrDeparting.Error()).hint("say once more where to, or that it stays")
	}
	c.box = b
	return b, b.Use(), nil
}

func (s *Server) show(c *call) error {
	b, err := s.box(c)
	if err != nil {
		return err
	}
	d := docOf(b, true)
	d.look(b)
	reply(c.w, http.StatusOK, d)
	return nil
}

// changeDoc changes a sandbox. A lifetime counts from now on.
type changeDoc struct {
	Labels      *map[string]string `json:"labels"`
	Lifetime    *duration          `json:"lifetime"`
	IdleTimeout *duration          `json:"idle_timeout"`
	Network     policyDoc          `json:"network"`
}

func (s *Server) change(c *call) error {
	b, done, err := s.standing(c)
	if err != nil {
		return err
	}
	defer done()
	var d changeDoc
	if err := c.read(&d); err != nil {
		return err
	}
	if d.Labels != nil {
		if err := checkLabels(*d.Labels); err != nil {
			return err
		}
	}
	if d.Network != nil { // first: where it is refused, nothing else changes
		if err := changeNetwork(c, b, d.Network, s.Ceiling); err != nil {
			return err
		}
	}
	if d.Labels != nil {
		b.SetLabels(maps.Clone(*d.Labels))
	}
	b.SetDeadlines((*time.Duration)(d.Lifetime), (*time.Duration)(d.IdleTimeout))
	reply(c.w, http.StatusOK, docOf(b, true))
	return nil
}

func (s *Server) remove(c *call) error {
	b, err := s.box(c)
	if err != nil {
		return err
	}
	code := http.StatusOK
	if b.End(sandboxes.CauseClosed, "a client asked for it") == nil {
		code = http.StatusAccepted
	}
	reply(c.w, code, docOf(b, true))
	return nil
}

func (s *Server) events(c *call) error {
	b, err := s.box(c)
	if err != nil {
		return err
	}
	return s.frames(c, b.Events, b.Usage)
}

// number is a number in a query.
func number(c *call, name string) (uint64, error) {
	word := c.URL.Query().Get(name)
	if word == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		return 0, fail(http.StatusBadRequest, codeBadRequest, name+" is not a number")
	}
	return n, nil
}

// liveDoc is what is known of a sandbox that stands while somebody looks.
type liveDoc struct {
	Usage   *backend.Usage             `json:"usage,omitempty"`
	Limits  *limitsDoc                 `json:"limits,omitempty"`
	Traffic *trafficDoc                `json:"traffic,omitempty"` // where somebody sees it
	Network map[string]json.RawMessage `json:"network,omitempty"` // the options that hold; of one alone
}

// limitsDoc are those that usage can be held against; 0 is none.
type limitsDoc struct {
	Memory int64 `json:"memory"`
	Tasks  int64 `json:"tasks"`
	Disk   int64 `json:"disk"`
}

// trafficDoc is what went over the network until now.
type trafficDoc struct {
	Allowed       int64 `json:"allowed"` // attempts
	Blocked       int64 `json:"blocked"`
	Failed        int64 `json:"failed"`
	SentBytes     int64 `json:"sent_bytes"`
	ReceivedBytes int64 `json:"received_bytes"`
}

// look fills in what takes a look at the sandbox.
func (d *liveDoc) look(b *sandboxes.Sandbox) {
	if b.Ended() != nil {
		return
	}
	if u, err := b.Usage(); err == nil {
		d.Usage = &u
	}
	p := b.Policy()
	d.Limits = &limitsDoc{Memory: p.MemoryLimit, Tasks: p.Processes, Disk: p.DiskLimit}
	t := b.Traffic()
	if t == nil {
		return
	}
	d.Traffic = &trafficDoc{SentBytes: t.SentBytes, ReceivedBytes: t.ReceivedBytes}
	for i := range t.Attempts {
		switch a := &t.Attempts[i]; a.Verdict {
		case status.AttemptAllowed:
			d.Traffic.Allowed += a.Count
		case status.AttemptBlocked:
			d.Traffic.Blocked += a.Count
		case status.AttemptFailed:
			d.Traffic.Failed += a.Count
		}
	}
}

// changeNetwork has other rules hold: the options that are said are others, the rest is as it was. They may be no wider than the ceiling.
func changeNetwork(c *call, b *sandboxes.Sandbox, said policyDoc, ceiling *config.Policy) error {
	settings, err := said.settings()
	if err != nil {
		return err
	}
	return b.Network(c.Context(), func(p *config.Policy) (*config.Network, error) {
		n, err := p.Network.Change(settings)
		if err != nil {
			return nil, err
		}
		policy := *p
		policy.Network = *n
		if err := policy.Validate(); err != nil {
			return nil, err
		}
		if ceiling != nil {
			if option := policy.Wider(ceiling); option != "" {
				return nil, fail(http.StatusForbidden, codeCeiling, "with this network, the policy's "+option+" would be wider than the server allows").hint("ask for less of it")
			}
		}
		return n, nil
	})
}

// networkOf are the options of a network, as a change takes them.
func networkOf(n *config.Network) map[string]json.RawMessage {
	doc := map[string]json.RawMessage{}
	for _, set := range n.Settings() {
		o := config.LookupOption(set.Option)
		var v any = set.Values
		switch {
		case o.IsList() && len(set.Values) == 0:
			v = []string{}
		case o.IsBool():
			v = set.Values[0] == "true"
		case !o.IsList():
			v = set.Values[0]
		}
		text, _ := json.Marshal(v) // plain data
		doc[strings.ReplaceAll(set.Option, "-", "_")] = text
	}
	return doc
}
