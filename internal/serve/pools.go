package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/places"
	"github.com/confine-run/confine/internal/pool"
	"github.com/confine-run/confine/internal/sandboxes"
)

// profilePool has sandboxes of one profile ready, for one kind of request.
type profilePool struct {
	profile string
	kind    poolKind
	*pool.Pool
}

// poolKind is what sandboxes are for. A profile's limits on how long a run may take hold in those of runs alone.
type poolKind string

const (
	forRuns      poolKind = "runs"
	forSandboxes poolKind = "sandboxes"
)

// poolRoutes are what there is about pools.
type poolRoutes struct{ *Server }

// open begins to keep sandboxes ready: a word is PROFILE=MIN:MAX. ceiling is the server's, for errors.
func (s poolRoutes) open(words []string, ceiling string, backends func(*config.Policy) backend.Backend) error {
	room := places.New(places.ByDescriptors()) // which is never all taken: the manager bounds what is claimed, and [roomFor] both
	for _, word := range words {
		profile, min, max, err := poolOf(word)
		if err != nil {
			s.close()
			return err
		}
		for _, kind := range []poolKind{forRuns, forSandboxes} {
			p, err := s.add(profile, kind, pool.Options{Min: min, Max: max, Backend: backends, Places: room})
			if err != nil {
				s.close()
				return unpooled(word, ceiling, err)
			}
			s.pools = append(s.pools, p)
		}
	}
	return nil
}

// poolOf reads the word of a pool.
func poolOf(word string) (profile string, min, max int, err error) {
	profile, size, _ := strings.Cut(word, "=")
	least, most, _ := strings.Cut(size, ":")
	min, err = strconv.Atoi(least)
	max, err2 := strconv.Atoi(most)
	if profile == "" || err != nil || err2 != nil {
		return "", 0, 0, &config.UsageError{Msg: fmt.Sprintf("--pool %q: it takes PROFILE=MIN:MAX", word), Hint: "so many sandboxes are always ready, and so many at most: --pool standard=2:20"}
	}
	return profile, min, max, nil
}

// unpooled says why there is no pool: what has been asked for is a mistake on the command line, whatever it would be in a request.
func unpooled(word, ceiling string, err error) error {
	var usage *config.UsageError
	var wider *config.CeilingError
	var p *problem
	switch {
	case errors.As(err, &usage):
		return &config.UsageError{Msg: "--pool " + word + ": " + usage.Msg, Hint: usage.Hint, Err: err}
	case errors.As(err, &p) && p.Code == codeCeiling:
		err = errors.New(p.Detail)
	case !errors.As(err, &wider):
		return fmt.Errorf("--pool %s: %w", word, err)
	}
	return &config.UsageError{Msg: fmt.Sprintf("--pool %s is wider than --ceiling %s: %v", word, ceiling, err), Hint: "name a pool of a profile that is within the ceiling, or another ceiling", Err: err}
}

func (s poolRoutes) add(profile string, kind poolKind, o pool.Options) (*profilePool, error) {
	name, err := json.Marshal(profile)
	if err != nil {
		return nil, err
	}
	if s.named(profile, kind) != nil {
		return nil, &config.UsageError{Msg: "there is a pool of this profile already"}
	}
	// Its files are read again each time: they may have changed.
	o.Spec = func() (*backend.Spec, error) {
		spec, err := s.spec(policyDoc{"profile": name}, "")
		if err == nil && kind == forSandboxes {
			s.lift(spec)
		}
		return spec, err
	}
	p, err := pool.New(context.Background(), o)
	return &profilePool{profile, kind, p}, err
}

// close ends what is parked.
func (s poolRoutes) close() {
	for _, p := range s.pools {
		p.Close()
	}
}

// of is the pool whose sandboxes are what a request wants, or nil: one that says nothing of its policy but the profile.
func (s poolRoutes) of(kind poolKind, doc policyDoc, dir string) *profilePool {
	profile := s.Profile
	raw, named := doc["profile"]
	if dir != "" || len(doc) > 1 || len(doc) == 1 && !named || named && json.Unmarshal(raw, &profile) != nil {
		return nil
	}
	return s.named(profile, kind)
}

// named is the pool of a profile, or nil.
func (s poolRoutes) named(profile string, kind poolKind) *profilePool {
	for _, p := range s.pools {
		if p.profile == profile && p.kind == kind {
			return p
		}
	}
	return nil
}

// forRun says of a request for a run which sandbox it wants.
func (s poolRoutes) forRun(r *sandboxes.Request, d *runDoc) (err error) {
	limit := time.Duration(d.TimeLimit)
	if p := s.of(forRuns, d.Policy, d.Dir); p != nil {
		// A limit that is narrower than the profile's is the process's; another is the sandbox's.
		if r.Spec, err = p.Spec(); err != nil || r.Spec.Policy.TimeLimit == 0 || limit <= r.Spec.Policy.TimeLimit {
			r.Open = p.opener(d.Argv)
			return err
		}
	}
	if r.Spec, err = s.spec(d.Policy, d.Dir); err != nil {
		return err
	}
	r.Spec.Argv = d.Argv
	if limit > 0 && !r.Spec.Resolved.IsSet("time-limit") { // it is this one's own
		r.Spec.Policy.TimeLimit = limit
		return s.within(r.Spec.Policy, d.Dir)
	}
	return nil
}

// forSandbox says of a request for a sandbox which one it wants.
func (s poolRoutes) forSandbox(r *sandboxes.Request, d *createDoc) (err error) {
	if p := s.of(forSandboxes, d.Policy, d.Dir); p != nil {
		r.Open = p.opener(d.For)
		r.Spec, err = p.Spec()
		return err
	}
	if r.Spec, err = s.spec(d.Policy, d.Dir); err == nil {
		r.Spec.Argv = d.For
		s.lift(r.Spec)
	}
	return err
}

// opener claims a sandbox for commands like this one.
func (p *profilePool) opener(argv []string) func(context.Context) (backend.Sandbox, error) {
	command := ""
	if len(argv) > 0 {
		command = argv[0]
	}
	return func(ctx context.Context) (backend.Sandbox, error) {
		box, err := p.Claim(ctx, command)
		if err != nil {
			return nil, err
		}
		return box.Background(), nil
	}
}

// poolDoc is a pool as it is shown.
type poolDoc struct {
	Profile string   `json:"profile"`
	For     poolKind `json:"for"`
	pool.Stats
}

// list is for the user whom the server runs as: what is counted is everybody's claims.
func (s poolRoutes) list(c *call) error {
	if !keeper(c.owner) {
		return fail(http.StatusForbidden, codeForbidden, "pools are shown to the user whom the server runs as").hint("ask on its unix socket, as that user")
	}
	all := []poolDoc{}
	for _, p := range s.pools {
		all = append(all, poolDoc{p.profile, p.kind, p.Stats()})
	}
	reply(c.w, http.StatusOK, map[string]any{"pools": all})
	return nil
}

// metrics is what Prometheus reads of pools.
func (s poolRoutes) metrics(b *strings.Builder) {
	if len(s.pools) == 0 {
		return
	}
	all := make([]pool.Stats, len(s.pools))
	for i, p := range s.pools {
		all[i] = p.Stats()
	}
	one := func(name, kind, help string, value func(*pool.Stats) int64) {
		fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		for i, p := range s.pools {
			fmt.Fprintf(b, "%s{profile=%s,for=%q} %d\n", name, label(p.profile), p.kind, value(&all[i]))
		}
	}
	one("confine_pool_ready", "gauge", "Sandboxes that are parked.", func(s *pool.Stats) int64 { return int64(s.Ready) })
	one("confine_pool_want", "gauge", "Sandboxes that are to be parked, by what was asked for lately.", func(s *pool.Stats) int64 { return int64(s.Want) })
	one("confine_pool_built_total", "counter", "Sandboxes that were parked.", func(s *pool.Stats) int64 { return s.Built })
	one("confine_pool_failed_total", "counter", "Sandboxes that could not be built, or were not ready.", func(s *pool.Stats) int64 { return s.Failed })
	one("confine_pool_died_total", "counter", "Sandboxes that ended while they were parked.", func(s *pool.Stats) int64 { return s.Died })
	one("confine_pool_aged_total", "counter", "Sandboxes that were parked for too long.", func(s *pool.Stats) int64 { return s.Aged })
	one("confine_pool_changed_total", "counter", "Sandboxes that would have been built otherwise since.", func(s *pool.Stats) int64 { return s.Changed })
	const name = "confine_pool_claim_seconds"
	fmt.Fprintf(b, "# HELP %s How long claims took, by how they came by their sandboxes.\n# TYPE %s histogram\n", name, name)
	for i, p := range s.pools {
		for _, by := range []struct {
			path pool.Path
			of   *pool.PathStats
		}{{pool.Parked, &all[i].Parked}, {pool.Cold, &all[i].Cold}} {
			labels := fmt.Sprintf("profile=%s,for=%q,path=%q", label(p.profile), p.kind, by.path)
			sum := int64(0)
			for j, bound := range pool.Bounds {
				sum += by.of.Buckets[j]
				fmt.Fprintf(b, "%s_bucket{%s,le=\"%g\"} %d\n", name, labels, bound, sum)
			}
			fmt.Fprintf(b, "%s_bucket{%s,le=\"+Inf\"} %d\n%s_sum{%s} %g\n%s_count{%s} %d\n", name, labels, by.of.Claims, name, labels, by.of.Total, name, labels, by.of.Claims)
		}
	}
}

// label is the value of a label as Prometheus reads it.
func label(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(word) + `"`
}
