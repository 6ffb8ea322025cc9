//go:build unix

package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/status"
)

func linesOfEvents(t *testing.T, text string) (all []status.Event) {
	t.Helper()
	for line := range strings.Lines(text) {
		var e status.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

func TestWhatHappensIsToldOnce(t *testing.T) {
	inTemp(t)
	var c call
	c.report = &status.Report{
		Status: status.Timeout, RC: 124, Cause: status.CauseWall, LimitsHit: []string{"output", "wall_time"},
		Violations: []status.Violation{{Kind: "syscall", What: "ptrace", Rule: "r", Count: 9}, {Kind: "file", What: "/x", Rule: "protected", Count: 1}},
	}
	c.during = func() {
		io := &c.io
		io.Usage(status.Load{CPUMS: 1, MemoryBytes: 2, Tasks: 3})
		for range 3 {
			io.Denied(status.Violation{Kind: "syscall", What: "ptrace", Rule: "r", Count: 1})
			io.LimitHit(status.WallTime)
		}
		io.Attempt(status.Attempt{What: "a:1", Protocol: "udp", Verdict: status.AttemptBlocked, Why: "not_allowed", Count: 1})
		io.Attempt(status.Attempt{What: "b:1", Protocol: "tcp", Verdict: status.AttemptFailed, Count: 1})
	}
	r := c.run(t, "--events", "events", "ls")
	if r.rc != 124 {
		t.Fatal(r.rc, r.err)
	}
	b, err := os.ReadFile("events")
	must(t, err)
	var got []string
	for _, e := range linesOfEvents(t, string(b)) {
		word := string(e.Event)
		switch e.Event {
		case status.EventDenied:
			word += " " + e.Denied.What
		case status.EventLimitHit:
			word += " " + string(e.Limit)
		case status.EventUsage:
			word += fmt.Sprint(" ", *e.Usage)
		case status.EventEnded:
			word += " " + string(e.Report.Status)
		}
		if e.TraceID != c.io.TraceID || e.Time == "" || e.Dropped != 0 {
			t.Errorf("%+v", e)
		}
		got = append(got, word)
	}
	want := "started, usage {1 2 3}, denied ptrace, limit_hit wall_time, denied a:1/udp, denied /x, limit_hit output, ended TIMEOUT"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("%s\nwant %s", s, want)
	}
}

// A reader that takes nothing holds nobody up, and learns how much it has missed.
func TestASlowReaderOfEvents(t *testing.T) {
	rd, wr, err := os.Pipe()
	must(t, err)
	defer rd.Close()
	defer wr.Close()
	const many = 20_000 // far more than a pipe and the queue hold
	inTemp(t)
	var c call
	var got []status.Event
	read := make(chan struct{})
	c.during = func() {
		for i := range many {
			c.io.Usage(status.Load{CPUMS: int64(i)})
		}
		go func() { // and only now somebody reads
			defer close(read)
			lines := bufio.NewScanner(rd)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				got = append(got, linesOfEvents(t, lines.Text())...)
				if got[len(got)-1].Event == status.EventEnded {
					return
				}
			}
		}()
	}
	r := c.run(t, "--events", inherited(t, wr), "ls")
	if r.rc != 0 {
		t.Fatal(r.rc, r.err)
	}
	<-read
	dropped := int64(0)
	for _, e := range got {
		dropped += e.Dropped
	}
	if last := got[len(got)-1]; last.Event != status.EventEnded || dropped == 0 || int64(len(got))+dropped != many+2 {
		t.Errorf("%d events, %d dropped, the last %+v", len(got), dropped, last)
	}
}

func TestTheReaderOfEventsLeaves(t *testing.T) {
	rd, wr, err := os.Pipe()
	must(t, err)
	defer wr.Close()
	inTemp(t)
	var c call
	c.during = func() {
		must(t, rd.Close())
		for range 5000 {
			c.io.Usage(status.Load{})
		}
	}
	if r := c.run(t, "--events", inherited(t, wr), "ls"); r.rc != 0 || r.err != "" {
		t.Errorf("rc %d, %s", r.rc, r.err)
	}
}

// One that never takes anything loses the end, which is said.
func TestNobodyReadsEvents(t *testing.T) {
	rd, wr, err := os.Pipe()
	must(t, err)
	defer rd.Close()
	defer wr.Close()
	fd := int(wr.Fd()) // which makes it wait, each time that it is asked
	must(t, unix.SetNonblock(fd, true))
	full := make([]byte, 4096)
	for err == nil {
		_, err = unix.Write(fd, full)
	}
	must(t, unix.SetNonblock(fd, false))
	inTemp(t)
	var c call
	if r := c.run(t, "--events", inherited(t, wr), "ls"); r.rc != 1 || !strings.Contains(r.err, "nobody reads it") {
		t.Errorf("rc %d, %s", r.rc, r.err)
	}
}
