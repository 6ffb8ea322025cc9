package serve

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/confine-run/confine/internal/sandboxes"
)

// counts are how often the server was asked for something.
type counts struct{ requests, problems, runs, execs int64 }

// stats are the counts by who asked. Who isn't known is the empty owner.
type stats struct {
	mu sync.Mutex
	of map[sandboxes.Owner]*counts
}

func (s *stats) count(owner sandboxes.Owner, add counts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[sandboxes.Owner]*counts{}
	}
	if s.of[owner] == nil {
		s.of[owner] = &counts{}
	}
	s.of[owner].add(add)
}

func (c *counts) add(d counts) {
	c.requests += d.requests
	c.problems += d.problems
	c.runs += d.runs
	c.execs += d.execs
}

// shown are an owner's counts. The user whom the server runs as is told those of all.
func (s *stats) shown(owner sandboxes.Owner) (sum counts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for who, c := range s.of {
		if who == owner || keeper(owner) {
			sum.add(*c)
		}
	}
	return sum
}

// keeper: the user whom the server runs as.
func keeper(owner sandboxes.Owner) bool { return owner == OwnerOf(os.Geteuid()) }

// metrics is the text that Prometheus reads. What is counted by sandboxes is the owner's own.
func (s *Server) metrics(c *call) error {
	running, ended, processes := 0, 0, 0
	for _, b := range s.Manager.List(c.owner) {
		if b.Ended() != nil {
			ended++
			continue
		}
		running++
		for _, p := range b.Processes() {
			if p.Report() == nil {
				processes++
			}
		}
	}
	var b strings.Builder
	n := s.stats.shown(c.owner)
	for _, m := range []struct {
		name, kind, help string
		value            int64
	}{
		{"confine_requests_total", "counter", "Requests, whatever became of them.", n.requests},
		{"confine_problems_total", "counter", "Requests that were answered with a problem.", n.problems},
		{"confine_runs_total", "counter", "Runs that were asked for.", n.runs},
		{"confine_execs_total", "counter", "Processes that were asked for in sandboxes.", n.execs},
		{"confine_sandboxes", "gauge", "Sandboxes of this owner that stand.", int64(running)},
		{"confine_sandboxes_ended", "gauge", "Sandboxes of this owner that have ended and are remembered.", int64(ended)},
		{"confine_processes", "gauge", "Processes that run in sandboxes of this owner.", int64(processes)},
	} {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
	if keeper(c.owner) {
		fmt.Fprintf(&b, "# HELP confine_waiting Requests that wait for room for a sandbox.\n# TYPE confine_waiting gauge\nconfine_waiting %d\n", s.Manager.Waiting())
		poolRoutes{s}.metrics(&b)
	}
	c.w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, err := c.w.Write([]byte(b.String()))
	return err
}
