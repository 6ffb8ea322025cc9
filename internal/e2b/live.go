package e2b

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/config"
)

// liveRoutes are what is asked about a sandbox that stands: what it uses, and whom it reaches.
type liveRoutes struct{ *Server }

// metricDoc is what a sandbox uses at one moment.
type metricDoc struct {
	Timestamp     time.Time `json:"timestamp"`
	TimestampUnix int64     `json:"timestampUnix"`
	CPUCount      int       `json:"cpuCount"`
	CPUUsedPct    float64   `json:"cpuUsedPct"` // of all of them, since somebody asked, or the beginning
	MemUsed       int64     `json:"memUsed"`
	MemTotal      int64     `json:"memTotal"`
	MemCache      int64     `json:"memCache"` // not told apart from what is used
	DiskUsed      int64     `json:"diskUsed"`
	DiskTotal     int64     `json:"diskTotal"`
}

func (s liveRoutes) metricOf(b *box) (*metricDoc, error) {
	used, err := b.Usage()
	if err != nil {
		return nil, err
	}
	now, p := time.Now(), b.Policy()
	cpus := s.detailOf(b, false).CPUCount
	b.mu.Lock()
	defer b.mu.Unlock()
	d := &metricDoc{Timestamp: now.UTC(), TimestampUnix: now.Unix(), CPUCount: cpus, MemUsed: used.Memory, MemTotal: p.MemoryLimit, DiskUsed: used.Scratch, DiskTotal: p.DiskLimit}
	if since := now.Sub(b.measured); since > 0 {
		d.CPUUsedPct = min(100, max(0, 100*float64(used.CPU-b.cpu)/float64(since)/float64(cpus)))
	}
	b.measured, b.cpu = now, used.CPU
	return d, nil
}

// metrics are what one sandbox uses: now, since nobody writes it down meanwhile, unless ?start and ?end are about another time.
func (s liveRoutes) metrics(c *call) error {
	b, err := s.own(c)
	if err != nil {
		return err
	}
	d, err := s.metricOf(b)
	if err != nil {
		return err
	}
	docs := []*metricDoc{}
	if during(c, d.TimestampUnix) {
		docs = append(docs, d)
	}
	reply(c.w, http.StatusOK, docs)
	return nil
}

// during says whether a second is within ?start and ?end.
func during(c *call, at int64) bool {
	start, err := strconv.ParseInt(c.URL.Query().Get("start"), 10, 64)
	if err == nil && at < start {
		return false
	}
	end, err := strconv.ParseInt(c.URL.Query().Get("end"), 10, 64)
	return err != nil || at <= end
}

// allMetrics are those of the sandboxes that ?sandbox_ids names, with a comma between.
func (s liveRoutes) allMetrics(c *call) error {
	docs := map[string]*metricDoc{}
	for id := range strings.SplitSeq(c.URL.Query().Get("sandbox_ids"), ",") {
		b := s.find(id)
		if b == nil || b.Owner != c.owner {
			continue
		}
		if d, err := s.metricOf(b); err == nil {
			docs[id] = d
		}
	}
	reply(c.w, http.StatusOK, map[string]any{"sandboxes": docs})
	return nil
}

// Rules are the network of a sandbox as a client says it.
type Rules struct {
	Internet *bool          `json:"allow_internet_access"`
	Allow    []string       `json:"allowOut"`
	Deny     []string       `json:"denyOut"`
	DNS      []string       `json:"dnsServers"`
	Proxy    map[string]any `json:"egressProxy"`
	Rewrite  map[string]any `json:"rules"`
	Public   *bool          `json:"allowPublicTraffic"`
	Ports    []int          `json:"httpsPorts"`
	MaskHost string         `json:"maskRequestHost"`
}

// everything are the words by which a client says all addresses.
var everything = []string{"0.0.0.0/0", "::/0"}

// Words gives the hosts that are allowed, and those that are denied; nil is what the template says, and nothing allowed is nothing. With
// E2B what is allowed is stronger than what is denied, so of the two only one names hosts.
func (r *Rules) Words() (allow, deny []string, err error) {
	for what, asked := range map[string]bool{
		"DNS servers of one's own": len(r.DNS) > 0, "an egress proxy": len(r.Proxy) > 0, "rules that change requests": len(r.Rewrite) > 0,
		"traffic from outside": r.Public != nil && *r.Public || r.MaskHost != "" || len(r.Ports) > 0,
	} {
		if asked {
			return nil, nil, &failure{http.StatusBadRequest, "network: " + what + " can't be had from confine serve"}
		}
	}
	none := r.Internet != nil && !*r.Internet
	for _, word := range r.Deny {
		if slices.Contains(everything, word) {
			none = true
		} else {
			deny = append(deny, word)
		}
	}
	for _, word := range r.Allow {
		if slices.Contains(everything, word) {
			word = "*"
		}
		allow = append(allow, word)
	}
	switch {
	case len(allow) > 0 && len(deny) > 0:
		return nil, nil, &failure{http.StatusBadRequest, "network: denyOut is stronger than allowOut with confine serve: allow some hosts and no others, or deny some"}
	case none && len(allow) == 0:
		return []string{}, nil, nil
	}
	return allow, deny, nil
}

// setNetwork has other rules hold.
func (s liveRoutes) setNetwork(c *call) error {
	b, err := s.own(c)
	if err != nil {
		return err
	}
	var d Rules
	if err := c.read(&d); err != nil {
		return err
	}
	spec, err := s.Spec(b.template, &d)
	if err != nil {
		return err
	}
	err = b.Network(c.Context(), func(*config.Policy) (*config.Network, error) {
		n := spec.Policy.Network
		return &n, nil
	})
	if err == nil {
		c.w.WriteHeader(http.StatusNoContent)
	}
	return err
}
