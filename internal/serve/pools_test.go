package serve

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/confine/confinetest"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
)

// withPool is a server with a pool of which all are ready, and what it shows of it.
func withPool(t *testing.T, kind poolKind, change func(*Server)) (c *client, show func() poolDoc) {
	t.Helper()
	mock := &confinetest.Backend{Handle: play}
	_, c = newServer(t, func(s *Server) {
		if change != nil {
			change(s)
		}
		must.Do(t, (poolRoutes{s}).open([]string{"standard=2:4"}, "", func(*config.Policy) backend.Backend { return mock }))
	})
	show = func() poolDoc {
		t.Helper()
		var d struct{ Pools []poolDoc }
		c.want(200, "GET", "/v1/pools", nil, &d)
		i := slices.IndexFunc(d.Pools, func(p poolDoc) bool { return p.For == kind })
		if len(d.Pools) != 2 || i < 0 || d.Pools[i].Profile != "standard" || d.Pools[i].Min != 2 || d.Pools[i].Max != 4 {
			t.Fatalf("%+v", d)
		}
		return d.Pools[i]
	}
	for until := time.Now().Add(10 * time.Second); show().Ready < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%+v", show())
		}
	}
	return c, show
}

func TestRunsTakeTheirSandboxesFromAPool(t *testing.T) {
	c, show := withPool(t, forRuns, nil)
	var r ranDoc
	c.want(200, "POST", "/v1/runs", `{"argv": ["echo", "hello"], "policy": {"profile": "standard"}, "collect": ["in"], "files": {"in": "x"}}`, &r)
	if string(r.Stdout) != "hello\n" || r.Sandbox != nil || string(r.Files["in"]) != "x" || show().Parked.Claims != 1 {
		t.Errorf("%+v, %+v", r, show())
	}
	var d sandboxDoc
	for d.State != "ended" {
		c.want(200, "GET", "/v1/sandboxes/"+r.ID, nil, &d)
	}
	if d.Ended.Report == nil || d.Ended.Reason != "its only process has ended" {
		t.Errorf("%+v", d.Ended)
	}
	// Whatever else concerns the box has one built for it, and what concerns the process alone hasn't.
	for body, want := range map[string]int64{
		`{"argv": ["echo"], "policy": {"profile": "standard", "memory_limit": "64M"}}`: 0,
		`{"argv": ["echo"], "policy": {"profile": "default"}}`:                         0,
		`{"argv": ["echo"]}`: 0,
		`{"argv": ["echo"], "policy": {"profile": "standard"}, "dir": "/"}`:                                          0,
		`{"argv": ["env"], "policy": {"profile": "standard"}, "env": {"A": "b"}, "stdin": "x", "time_limit": "10s"}`: 1,
		`{"argv": ["echo"], "policy": {"profile": "standard"}, "time_limit": "10h"}`:                                 0,
	} {
		before := show()
		c.want(200, "POST", "/v1/runs", body, nil)
		after := show()
		if n := after.Parked.Claims + after.Cold.Claims - before.Parked.Claims - before.Cold.Claims; n != want {
			t.Errorf("%s: %d claims", body, n)
		}
	}
}

func TestTheProfileOfTheServerIsThatOfItsPool(t *testing.T) {
	c, show := withPool(t, forRuns, func(s *Server) { s.Profile = "standard" })
	c.want(200, "POST", "/v1/runs", `{"argv": ["echo"]}`, nil)
	if show().Parked.Claims != 1 {
		t.Errorf("%+v", show())
	}
}

func TestASandboxOfAPoolIsItsOwnersAndEndsAtOnce(t *testing.T) {
	c, show := withPool(t, forSandboxes, nil)
	var d sandboxDoc
	c.want(201, "POST", "/v1/sandboxes", `{"name": "n", "policy": {"profile": "standard"}, "env": {"S": "hunter2"}, "labels": {"a": "b"}}`, &d)
	var r resultDoc
	c.want(200, "POST", "/v1/sandboxes/n/exec", `{"argv": ["env"]}`, &r)
	if !strings.Contains(string(r.Stdout), "S=hunter2") || d.Labels["a"] != "b" || d.Deadline == nil || len(d.Ledger) == 0 || show().Parked.Claims != 1 {
		t.Errorf("%+v %+v", r, d)
	}
	c.want(202, "DELETE", "/v1/sandboxes/n", nil, &d)
	if d.State == "running" {
		t.Errorf("%+v", d)
	}
	c.want(201, "POST", "/v1/sandboxes", `{"policy": {"profile": "standard"}}`, &d)
	c.want(200, "POST", "/v1/sandboxes/"+d.ID+"/exec", `{"argv": ["env"]}`, &r)
	if strings.Contains(string(r.Stdout), "hunter2") {
		t.Errorf("the next has %q", r.Stdout)
	}
}

func TestMetricsTellOfPools(t *testing.T) {
	c, _ := withPool(t, forRuns, nil)
	c.want(200, "POST", "/v1/runs", `{"argv": ["echo"], "policy": {"profile": "standard"}}`, nil)
	_, body := c.send("GET", "/v1/metrics", nil)
	lines := strings.Split(string(body), "\n")
	for _, want := range []string{
		`confine_pool_claim_seconds_bucket{profile="standard",for="runs",path="parked",le="+Inf"} 1`,
		`confine_pool_claim_seconds_count{profile="standard",for="runs",path="cold"} 0`,
		`confine_pool_failed_total{profile="standard",for="runs"} 0`,
		`# TYPE confine_pool_claim_seconds histogram`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
}

func TestPoolsThatAreNoneAreRefused(t *testing.T) {
	for _, words := range [][]string{{"standard"}, {"standard=1"}, {"standard=2:1"}, {"standard=-1:1"}, {"standard=0:0"}, {"=1:2"}, {"standard=a:2"}, {"no-such=1:2"}, {"standard=0:1", "standard=0:2"}} {
		s := &Server{Sources: config.Sources{Dir: t.TempDir(), Home: t.TempDir()}}
		err := (poolRoutes{s}).open(words, "", func(*config.Policy) backend.Backend { return &confinetest.Backend{} })
		if !errors.As(err, new(*config.UsageError)) || !strings.Contains(err.Error(), "--pool "+words[len(words)-1]) && !strings.Contains(err.Error(), strconv.Quote(words[0])) {
			t.Error(words, err)
		}
		poolRoutes{s}.close()
	}
	s := &Server{Sources: config.Sources{Dir: t.TempDir(), Home: t.TempDir()}, Ceiling: &config.Policy{MemoryLimit: 1}}
	err := (poolRoutes{s}).open([]string{"default=0:1"}, "low.toml", func(*config.Policy) backend.Backend { return &confinetest.Backend{} })
	if !errors.As(err, new(*config.UsageError)) || !strings.Contains(err.Error(), "--pool default=0:1 is wider than --ceiling low.toml: ") || !strings.Contains(err.Error(), "hint: name a pool") {
		t.Error("a pool that is wider than the ceiling:", err)
	}
}
