package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/confine/confinetest"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/status"
)

// alive plays processes that tell something while they go on.
func alive(c *confinetest.Call) (r confinetest.Result) {
	switch c.Args[0] {
	case "uses":
		c.Use(backend.Usage{CPU: 3 * time.Second, Memory: 4 << 20, Tasks: 5, Scratch: -1})
		<-c.Context.Done()
	case "denied": // and waits for a line
		for range 3 {
			c.Tell(backend.Event{Denied: &status.Violation{Kind: "syscall", What: "mount", Rule: "privileged", Count: 1}})
			c.Tell(backend.Event{Limit: status.Tasks})
		}
		_, _ = io.Copy(io.Discard, c.Stdin)
	case "drips":
		for range 40 {
			fmt.Fprintln(c.Stdout, "drop")
			time.Sleep(5 * time.Millisecond)
		}
	default:
		return play(c)
	}
	return r
}

func newLive(t *testing.T, change func(*Server)) *client {
	t.Helper()
	_, c := newServer(t, func(s *Server) {
		mock := &confinetest.Backend{Handle: alive}
		s.Manager = sandboxes.New(sandboxes.Options{Backend: func(*config.Policy) backend.Backend { return mock }, LogBytes: 64 << 10})
		if change != nil {
			change(s)
		}
	})
	return c
}

// follow gives the frames of a stream as they come, until enough says so. Then it leaves.
func (c *client) follow(path string, body string, enough func(*sandboxes.Frame) bool) (all []sandboxes.Frame) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	method := "GET"
	if body != "" {
		method = "POST"
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	must.Do(c.t, err)
	r.Header.Set("Accept", ndjson)
	answer, err := c.Do(r)
	must.Do(c.t, err)
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		var f sandboxes.Frame
		must.Do(c.t, json.Unmarshal(lines.Bytes(), &f))
		all = append(all, f)
		if enough(&f) {
			return all
		}
	}
	c.t.Fatalf("the stream ended: %+v", all)
	return nil
}

func ofType(all []sandboxes.Frame, kind string) (some []sandboxes.Frame) {
	for _, f := range all {
		if f.Type == kind {
			some = append(some, f)
		}
	}
	return some
}

func TestAStreamSaysWhatIsUsed(t *testing.T) {
	c := newLive(t, func(s *Server) { s.pace.usage = 10 * time.Millisecond })
	box := c.open(doc{})
	n := 0
	frames := c.follow(box+"/exec", `{"argv": ["uses"]}`, func(f *sandboxes.Frame) bool {
		if f.Type == sandboxes.FrameUsage {
			n++
		}
		return n == 3
	})
	for _, f := range ofType(frames, sandboxes.FrameUsage) {
		if f.Seq != 1 || f.Usage == nil || f.Usage.CPU != 3*time.Second || f.Usage.Tasks != 5 {
			t.Errorf("%+v", f)
		}
	}
	var p processDoc
	if c.want(200, "GET", box+"/processes/1", nil, &p); p.Usage == nil || p.Usage.Memory != 4<<20 || p.Seq != 1 {
		t.Errorf("%+v: frames of usage are a reader's own", p)
	}
	var d sandboxDoc
	if c.want(200, "GET", box, nil, &d); d.Usage == nil || d.Usage.Tasks != 5 || d.Limits == nil {
		t.Errorf("%+v", d)
	}
	frames = c.follow(box+"/events?follow=1", "", func(f *sandboxes.Frame) bool { return f.Type == sandboxes.FrameUsage })
	if u := frames[len(frames)-1].Usage; u == nil || u.Tasks != 5 {
		t.Errorf("%+v", frames)
	}
	var list struct{ Sandboxes []sandboxDoc }
	if c.want(200, "GET", "/v1/sandboxes", nil, &list); list.Sandboxes[0].Usage != nil {
		t.Error("a list looks at everybody unasked")
	}
	if c.want(200, "GET", "/v1/sandboxes?usage=1", nil, &list); list.Sandboxes[0].Usage == nil {
		t.Error("a list doesn't say what is used")
	}
	c.want(204, "POST", box+"/processes/1/signal", doc{"signal": "KILL"}, nil)
	frames = c.follow(box+"/processes/1/output?follow=1", "", func(f *sandboxes.Frame) bool { return f.Type == sandboxes.FrameExit })
	if frames[len(frames)-1].Seq != 2 {
		t.Errorf("%+v", frames)
	}
	var after processDoc
	if c.want(200, "GET", box+"/processes/1", nil, &after); after.Usage != nil || after.Report == nil {
		t.Errorf("of one that has ended: %+v", after)
	}
	c.want(200, "DELETE", box, nil, &d)
}

// TestAStreamIsKeptAlive where nothing happens, and nothing more is said where something does.
func TestAStreamIsKeptAlive(t *testing.T) {
	c := newLive(t, func(s *Server) { s.pace = pace{usage: time.Hour, keepalive: 20 * time.Millisecond} })
	box := c.open(doc{})
	n := 0
	frames := c.follow(box+"/exec", `{"argv": ["uses"]}`, func(f *sandboxes.Frame) bool {
		if f.Type == sandboxes.FrameKeepalive {
			n++
		}
		return n == 3
	})
	for _, f := range frames[1:] {
		if f.Type != sandboxes.FrameKeepalive || f.Seq != 1 || f.Time.IsZero() {
			t.Errorf("%+v", f)
		}
	}
	frames = c.follow(box+"/exec", `{"argv": ["drips"]}`, func(f *sandboxes.Frame) bool { return f.Type == sandboxes.FrameExit })
	if kept := ofType(frames, sandboxes.FrameKeepalive); len(kept) > 20 { // on a busy host a drop may be late
		t.Errorf("%d beside what there is to say", len(kept))
	}
	last := uint64(0)
	for _, f := range frames {
		if f.Type == sandboxes.FrameKeepalive && f.Seq != last || f.Type != sandboxes.FrameKeepalive && f.Seq != last+1 {
			t.Fatalf("after %d comes %+v", last, f)
		}
		last = f.Seq
	}
}

// TestAClientThatTakesNothingIsLeft: its process goes on, and is not held up any more.
func TestAClientThatTakesNothingIsLeft(t *testing.T) {
	c := newLive(t, func(s *Server) { s.pace.write = 100 * time.Millisecond })
	box := c.open(doc{})
	r, err := http.NewRequestWithContext(t.Context(), "POST", c.base+box+"/exec", strings.NewReader(`{"argv": ["flood"]}`)) // 16 MiB
	must.Do(t, err)
	r.Header.Set("Accept", ndjson)
	answer, err := c.Do(r)
	must.Do(t, err)
	defer answer.Body.Close() // and nothing is read
	var p processDoc
	for end := time.Now().Add(20 * time.Second); p.State != "exited"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is held up: %+v", p)
		}
		c.want(200, "GET", box+"/processes/1", nil, &p)
	}
	if text, err := io.ReadAll(answer.Body); err == nil && strings.Contains(string(text), `"exit"`) {
		t.Error("everything came after all")
	}
}

func TestWhatIsDeniedIsToldWhenItIs(t *testing.T) {
	c := newLive(t, nil)
	box := c.open(doc{})
	frames := c.follow(box+"/exec", `{"argv": ["denied"], "open_stdin": true}`, func(f *sandboxes.Frame) bool { return f.Type == sandboxes.FrameLimit })
	if d := ofType(frames, sandboxes.FrameDenied); len(d) != 1 || d[0].Denied.What != "mount" || frames[len(frames)-1].Limit != string(status.Tasks) {
		t.Errorf("%+v", frames)
	}
	c.want(200, "POST", box+"/processes/1/stdin?eof=1", "", nil)
	frames = c.follow(box+"/processes/1/output?follow=1", "", func(f *sandboxes.Frame) bool { return f.Type == sandboxes.FrameExit })
	if len(ofType(frames, sandboxes.FrameDenied)) != 1 || len(ofType(frames, sandboxes.FrameLimit)) != 1 {
		t.Errorf("told again: %+v", frames)
	}
	if r := frames[len(frames)-1].Report; len(r.Violations) == 0 {
		t.Errorf("%+v", r)
	}
}

func TestTheNetworkIsChanged(t *testing.T) {
	p := config.Default()
	p.Network.Allow, p.Network.BlockInternal = []string{"*.test", "a.example:443", "b.example"}, true
	c := newLive(t, func(s *Server) { s.Ceiling = &p })
	box := c.open(doc{"policy": doc{"allow_network": []string{"a.example:443"}}})
	var d sandboxDoc
	network := func() string {
		t.Helper()
		text, _ := json.Marshal(d.Network)
		return string(text)
	}
	c.want(200, "PATCH", box, doc{"network": doc{"allow_network": []string{"B.example"}, "network_bytes": "10M"}, "labels": doc{"k": "v"}}, &d)
	if got := network(); !strings.Contains(got, `"allow_network":["b.example"]`) || !strings.Contains(got, `"network_bytes":"10M"`) || !strings.Contains(got, `"block_internal":true`) || d.Labels["k"] != "v" {
		t.Errorf("%s, %v", got, d.Labels)
	}
	before := network()
	for _, bad := range []struct {
		code int
		what string
		body doc
	}{
		{403, codeCeiling, doc{"allow_network": []string{"c.example"}}},
		{403, codeCeiling, doc{"allow_network": []string{"all"}, "network_bytes": "none"}},
		{422, codePolicy, doc{"allow_network": []string{"all"}}}, // whose bytes nobody counts
		{403, codeCeiling, doc{"block_internal": false}},
		{422, codePolicy, doc{"time_limit": "1h"}},
		{422, codePolicy, doc{"allow_network": []string{"a b"}}},
		{422, codePolicy, doc{"allow-network": []string{}}},
		{422, codePolicy, doc{"allow_network": "b.example"}},
		{403, codeCeiling, doc{"publish": []string{"8080:80"}}},
	} {
		c.refused(bad.code, bad.what, "PATCH", box, doc{"network": bad.body, "labels": doc{"k": "other"}, "idle_timeout": "1s"})
	}
	c.want(200, "GET", box, nil, &d)
	if got := network(); got != before || d.Labels["k"] != "v" || d.IdleTimeout == duration(time.Second) {
		t.Errorf("something has changed: %s, %+v", got, d)
	}
	c.want(200, "PATCH", box, doc{"network": doc{"allow_network": []string{"x.y.test:443", "b.example:80"}}}, &d) // narrower words
	c.want(200, "PATCH", box, doc{"network": doc{"allow_network": []string{}}}, &d)
	if got := network(); !strings.Contains(got, `"allow_network":[]`) {
		t.Errorf("%s", got)
	}
	text, _ := json.Marshal(d.Network)
	c.want(200, "PATCH", box, doc{"network": json.RawMessage(text)}, &d) // what it says can be said
	c.want(200, "DELETE", box, nil, nil)
	c.refused(410, codeEnded, "PATCH", box, doc{"network": doc{"allow_network": []string{}}})
}

// A sandbox has a lifetime: what its profile says of how long a run may take doesn't hold for it and for its processes.
func TestNoRunsTimeHoldsForASandbox(t *testing.T) {
	c := newLive(t, nil)
	box := c.open(doc{"policy": doc{"profile": "standard"}}) // 30 s
	c.want(200, "POST", box+"/exec", doc{"argv": []string{"echo", "x"}, "time_limit": "10m", "cpu_time": "10m"}, nil)
}
