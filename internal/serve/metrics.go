package serve

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// stats count what the server was asked for.
type stats struct{ requests, problems, runs, execs atomic.Int64 }

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
	for _, m := range []struct {
		name, kind, help string
		value            int64
	}{
		{"confine_requests_total", "counter", "Requests, whatever became of them.", s.stats.requests.Load()},
		{"confine_problems_total", "counter", "Requests that were answered with a problem.", s.stats.problems.Load()},
		{"confine_runs_total", "counter", "Runs that were asked for.", s.stats.runs.Load()},
		{"confine_execs_total", "counter", "Processes that were asked for in sandboxes.", s.stats.execs.Load()},
		{"confine_sandboxes", "gauge", "Sandboxes of this owner that stand.", int64(running)},
		{"confine_sandboxes_ended", "gauge", "Sandboxes of this owner that have ended and are remembered.", int64(ended)},
		{"confine_processes", "gauge", "Processes that run in sandboxes of this owner.", int64(processes)},
	} {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
	poolRoutes{s}.metrics(&b)
	c.w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, err := c.w.Write([]byte(b.String()))
	return err
}
