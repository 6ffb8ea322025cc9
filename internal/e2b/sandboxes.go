package e2b

import (
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/sandboxes"
)

// What a sandbox has where nobody says it, and at most.
const (
	defaultTimeout = 5 * time.Minute
	maxTimeout     = 30 * 24 * 60 * 60 // seconds
)

// newSandbox asks for a sandbox. What is not supported is there in order to be refused.
type newSandbox struct {
	TemplateID string            `json:"templateID"`
	Timeout    *int64            `json:"timeout"` // seconds
	Metadata   map[string]string `json:"metadata"`
	EnvVars    map[string]string `json:"envVars"`
	Internet   *bool             `json:"allow_internet_access"`
	AutoPause  bool              `json:"autoPause"`
	AutoResume *struct {
		Enabled bool `json:"enabled"`
	} `json:"autoResume"`
	Network Rules          `json:"network"`
	IAM     map[string]any `json:"iam"`
	MCP     map[string]any `json:"mcp"`
	Volumes []any          `json:"volumeMounts"`
}

// sandboxDoc is what gives access to a sandbox.
type sandboxDoc struct {
	TemplateID  string `json:"templateID"`
	SandboxID   string `json:"sandboxID"`
	ClientID    string `json:"clientID"`
	EnvdVersion string `json:"envdVersion"`
	AccessToken string `json:"envdAccessToken,omitempty"`
}

// detailDoc is a sandbox as it is shown.
type detailDoc struct {
	sandboxDoc
	StartedAt  time.Time         `json:"startedAt"`
	EndAt      time.Time         `json:"endAt"`
	State      string            `json:"state"`
	CPUCount   int               `json:"cpuCount"`
	MemoryMB   int64             `json:"memoryMB"`
	DiskSizeMB int64             `json:"diskSizeMB"`
	Metadata   map[string]string `json:"metadata"`
}

func (s *Server) docOf(b *box, token bool) sandboxDoc {
	d := sandboxDoc{TemplateID: b.template, SandboxID: b.ID, ClientID: "confine", EnvdVersion: envdVersion}
	if token {
		d.AccessToken = s.token(b.ID)
	}
	return d
}

func (s *Server) detailOf(b *box, token bool) *detailDoc {
	end, _ := b.Deadlines()
	p := b.spec.Policy
	d := &detailDoc{sandboxDoc: s.docOf(b, token), StartedAt: b.Created.UTC(), EndAt: end.UTC(), State: "running", CPUCount: int(p.CPUs),
		MemoryMB: int64(p.MemoryLimit) >> 20, DiskSizeMB: int64(p.DiskLimit) >> 20, Metadata: b.Labels()}
	if d.CPUCount == 0 {
		d.CPUCount = runtime.NumCPU()
	}
	if d.Metadata == nil {
		d.Metadata = map[string]string{}
	}
	return d
}

func (s *Server) create(c *call) error {
	var d newSandbox
	if err := c.read(&d); err != nil {
		return err
	}
	for what, asked := range map[string]bool{
		"pausing": d.AutoPause || d.AutoResume != nil && d.AutoResume.Enabled, "iam": len(d.IAM) > 0,
		"mcp": len(d.MCP) > 0, "volumes": len(d.Volumes) > 0,
	} {
		if asked {
			return &failure{http.StatusBadRequest, what + " can't be had from confine serve"}
		}
	}
	timeout := defaultTimeout
	if d.Timeout != nil {
		var err error
		if timeout, err = lifetime(*d.Timeout); err != nil {
			return err
		}
	}
	if err := checkLabels(d.Metadata); err != nil {
		return err
	}
	env, err := envOf(d.EnvVars)
	if err != nil {
		return &failure{http.StatusBadRequest, err.Error()}
	}
	if d.Internet != nil {
		d.Network.Internet = d.Internet
	}
	template, from := snapshotRoutes{s}.from(c.owner, d.TemplateID)
	spec, err := s.Spec(template, &d.Network)
	if err != nil {
		return err
	}
	made, err := s.Manager.Create(c.Context(), c.owner, sandboxes.Request{Spec: spec, Labels: d.Metadata, Env: env, Lifetime: timeout, From: from})
	if err != nil {
		return err
	}
	b := newBox(made, template, spec)
	info, err := made.Files().Stat(Home)
	if err != nil {
		made.Close(sandboxes.CauseFailed, "it has no home directory")
		return err
	}
	b.uid, _ = ownerOf(info)
	s.add(b)
	reply(c.w, http.StatusCreated, s.docOf(b, true))
	return nil
}

// Bounds of metadata, as of labels.
const (
	maxLabels = 64
	maxWord   = 256
)

func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return &failure{http.StatusBadRequest, "metadata has more than 64 keys"}
	}
	for k, v := range labels {
		if k == "" || len(k) > maxWord || len(v) > maxWord {
			return &failure{http.StatusBadRequest, "metadata has a key that is empty, or words of more than 256 bytes"}
		}
	}
	return nil
}

// lifetime is a timeout in seconds. One of 0 is over at once.
func lifetime(seconds int64) (time.Duration, error) {
	if seconds < 0 || seconds > maxTimeout {
		return 0, &failure{http.StatusBadRequest, "the timeout is not between 0 and " + strconv.Itoa(maxTimeout) + " seconds"}
	}
	return max(time.Duration(seconds)*time.Second, time.Nanosecond), nil
}

// own is the owner's sandbox that a path names.
func (s *Server) own(c *call) (*box, error) {
	b := s.find(c.PathValue("id"))
	if b == nil || b.Owner != c.owner {
		return nil, &failure{http.StatusNotFound, "sandbox " + strconv.Quote(c.PathValue("id")) + " not found"}
	}
	return b, nil
}

func (s *Server) show(c *call) error {
	b, err := s.own(c)
	if err != nil {
		return err
	}
	reply(c.w, http.StatusOK, s.detailOf(b, true))
	return nil
}

func (s *Server) kill(c *call) error {
	b, err := s.own(c)
	if err != nil {
		return err
	}
	b.Close(sandboxes.CauseClosed, "a client asked for it")
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) setTimeout(c *call) error {
	var d struct {
		Timeout int64 `json:"timeout"`
	}
	return s.prolong(c, &d, func(b *box) (time.Duration, error) { return lifetime(d.Timeout) })
}

// refresh never makes a life shorter.
func (s *Server) refresh(c *call) error {
	var d struct {
		Duration int64 `json:"duration"`
	}
	return s.prolong(c, &d, func(b *box) (time.Duration, error) { return longer(b, d.Duration) })
}

func (s *Server) prolong(c *call, d any, until func(*box) (time.Duration, error)) error {
	b, err := s.own(c)
	if err == nil {
		err = c.read(d)
	}
	if err != nil {
		return err
	}
	left, err := until(b)
	if err != nil {
		return err
	}
	if left > 0 {
		b.SetDeadlines(&left, nil)
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// longer is a lifetime, or 0 where more is left.
func longer(b *box, seconds int64) (time.Duration, error) {
	left, err := lifetime(seconds)
	if end, _ := b.Deadlines(); err == nil && time.Until(end) > left {
		left = 0
	}
	return left, err
}

func (s *Server) connect(c *call) error {
	b, err := s.own(c)
	if err != nil {
		return err
	}
	var d struct {
		Timeout *int64 `json:"timeout"`
	}
	if err := c.read(&d); err != nil {
		return err
	}
	if d.Timeout != nil {
		left, err := longer(b, *d.Timeout)
		if err != nil {
			return err
		}
		if left > 0 {
			b.SetDeadlines(&left, nil)
		}
	}
	reply(c.w, http.StatusOK, s.docOf(b, true))
	return nil
}

// maxPage is how many sandboxes one answer has.
const maxPage = 100

func limitOf(query url.Values) (limit int, err error) {
	if !query.Has("limit") {
		return maxPage, nil
	}
	if limit, err = strconv.Atoi(query.Get("limit")); err != nil || limit < 1 || limit > maxPage {
		return 0, &failure{http.StatusBadRequest, "limit is not between 1 and 100"}
	}
	return limit, nil
}

// following is the number, of n, that comes after the one that ?nextToken names.
func following(query url.Values, n int, what string, id func(int) string) (int, error) {
	token := query.Get("nextToken")
	if token == "" {
		return 0, nil
	}
	for i := range n {
		if id(i) == token {
			return i + 1, nil
		}
	}
	return 0, &failure{http.StatusBadRequest, "nextToken names no " + what + " any more"}
}

// list shows the owner's, by ?metadata, ?state, ?template, ?startedAfter and ?order; after ?limit of them X-Next-Token says how to ask for more.
func (s *Server) list(c *call) error {
	query := c.URL.Query()
	wanted, err := metadata(query.Get("metadata"))
	if err != nil {
		return err
	}
	limit, err := limitOf(query)
	if err != nil {
		return err
	}
	var after time.Time
	if word := query.Get("startedAfter"); word != "" {
		if after, err = time.Parse(time.RFC3339, word); err != nil {
			return &failure{http.StatusBadRequest, "startedAfter is no time"}
		}
	}
	states := strings.Split(strings.Join(query["state"], ","), ",")
	all := s.Manager.List(c.owner) // the oldest first
	if query.Get("order") != "asc" {
		slices.Reverse(all)
	}
	from, err := following(query, len(all), "sandbox", func(i int) string { return all[i].ID })
	if err != nil {
		return err
	}
	docs := []*detailDoc{}
	for _, made := range all[from:] {
		b := s.find(made.ID)
		if b == nil || states[0] != "" && !slices.Contains(states, "running") || !b.Created.After(after) || !has(b, wanted) {
			continue
		}
		if t := query.Get("template"); t != "" && t != b.template {
			continue
		}
		if len(docs) == limit {
			c.w.Header().Set("X-Next-Token", docs[limit-1].SandboxID)
			break
		}
		docs = append(docs, s.detailOf(b, false))
	}
	reply(c.w, http.StatusOK, docs)
	return nil
}

// metadata reads a filter: a query whose words are escaped once more.
func metadata(text string) (map[string]string, error) {
	bad := &failure{http.StatusBadRequest, "metadata is no query"}
	words, err := url.ParseQuery(text)
	if err != nil {
		return nil, bad
	}
	wanted := map[string]string{}
	for k := range words {
		key, err := url.PathUnescape(k)
		value, again := url.PathUnescape(words.Get(k))
		if err != nil || again != nil {
			return nil, bad
		}
		wanted[key] = value
	}
	return wanted, nil
}

func has(b *box, wanted map[string]string) bool {
	labels := b.Labels()
	for k, v := range wanted {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}
