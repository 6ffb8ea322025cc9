package serve

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/confine/confinetest"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/sockets"
)

// play plays the processes of these tests.
func play(c *confinetest.Call) (r confinetest.Result) {
	switch c.Args[0] {
	case "cat":
		_, _ = io.Copy(c.Stdout, c.Stdin)
	case "echo":
		fmt.Fprintln(c.Stdout, strings.Join(c.Args[1:], " "))
		fmt.Fprint(c.Stderr, "\xff")
	case "env":
		fmt.Fprint(c.Stdout, strings.Join(c.Env, " "))
	case "copy":
		from, err := c.Files.Open(c.Args[1])
		if err != nil {
			return confinetest.Result{Code: 1}
		}
		to, _ := c.Files.Create(c.Args[2], 0o600)
		_, _ = io.Copy(to, from)
		_ = to.Close()
	case "doze":
		time.Sleep(200 * time.Millisecond)
		fmt.Fprint(c.Stdout, "awake")
	case "sleep":
		<-c.Context.Done()
	case "flood":
		for range 1 << 10 {
			if _, err := c.Stdout.Write(bytes.Repeat([]byte("x"), 16<<10)); err != nil {
				break
			}
		}
	}
	return r
}

// client speaks to a server on a unix socket.
type client struct {
	*http.Client
	t    *testing.T
	base string
	head map[string]string
}

func newServer(t *testing.T, change func(*Server)) (*Server, *client) {
	t.Helper()
	mock := &confinetest.Backend{Handle: play}
	s := &Server{
		Manager: sandboxes.New(sandboxes.Options{Backend: func(*config.Policy) backend.Backend { return mock }, Max: 20, LogBytes: 64 << 10}),
		Sources: config.Sources{Dir: t.TempDir(), Home: t.TempDir(), UID: os.Getuid()}, Version: "test",
	}
	if change != nil {
		change(s)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := sockets.Listen("unix:"+path, false)
	must.Do(t, err)
	serveOn(t, s, l)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return s, &client{Client: &http.Client{Transport: transport}, t: t, base: "http://confine"}
}

func serveOn(t *testing.T, s *Server, l ...net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// send gives the answer with its body read.
func (c *client) send(method, path string, body any) (*http.Response, []byte) {
	c.t.Helper()
	var from io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		from = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		must.Do(c.t, err)
		from = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, from)
	must.Do(c.t, err)
	for k, v := range c.head {
		r.Header.Set(k, v)
		if k == "Host" {
			r.Host = v
		}
	}
	answer, err := c.Do(r)
	must.Do(c.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must.Do(c.t, err)
	return answer, text
}

// want is send, and fills what the answer is to be.
func (c *client) want(code int, method, path string, body, into any) *http.Response {
	c.t.Helper()
	answer, text := c.send(method, path, body)
	if answer.StatusCode != code {
		c.t.Fatalf("%s %s: %s %s", method, path, answer.Status, text)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			c.t.Fatalf("%s %s: %v: %s", method, path, err, text)
		}
	}
	return answer
}

// refused wants a problem of a code.
func (c *client) refused(code int, what, method, path string, body any) {
	c.t.Helper()
	var p problem
	if answer := c.want(code, method, path, body, &p); p.Code != what || p.Status != code || answer.Header.Get("Content-Type") != "application/problem+json" {
		c.t.Errorf("%s %s: %+v", method, path, p)
	}
}

type doc = map[string]any

func (c *client) open(body doc) string {
	c.t.Helper()
	var d sandboxDoc
	c.want(201, "POST", "/v1/sandboxes", body, &d)
	return "/v1/sandboxes/" + d.ID
}

func frames(t *testing.T, text []byte) (all []sandboxes.Frame) {
	t.Helper()
	for line := range bytes.Lines(text) {
		var f sandboxes.Frame
		if err := json.Unmarshal(line, &f); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, f)
	}
	return all
}

func TestASandboxFromItsBeginningToItsEnd(t *testing.T) {
	_, c := newServer(t, nil)
	box := c.open(doc{"name": "work", "labels": doc{"a": "b"}, "policy": doc{"profile": "standard", "memory_limit": "64M"}, "env": doc{"X": "1"}})
	var r resultDoc
	c.want(200, "POST", box+"/exec", doc{"argv": []string{"echo", "hello"}}, &r)
	if string(r.Stdout) != "hello\n" || string(r.Stderr) != "\xff" || r.Report == nil || r.Report.Status != "OK" {
		t.Errorf("%+v", r)
	}
	c.want(200, "POST", "/v1/sandboxes/work/exec", doc{"argv": []string{"env"}, "env": doc{"Y": "2"}}, &r)
	if !strings.HasSuffix(string(r.Stdout), " X=1 Y=2") {
		t.Errorf("%s", r.Stdout)
	}
	c.want(200, "POST", box+"/exec", doc{"argv": []string{"cat"}, "stdin": doc{"b64": "AP8="}}, &r)
	if string(r.Stdout) != "\x00\xff" {
		t.Errorf("%q", r.Stdout)
	}
	var all struct{ Sandboxes []sandboxDoc }
	c.want(200, "GET", "/v1/sandboxes?label=a=b&state=running", nil, &all)
	if len(all.Sandboxes) != 1 || all.Sandboxes[0].State != "running" {
		t.Errorf("%+v", all)
	}
	c.want(200, "GET", "/v1/sandboxes?label=a=c", nil, &all)
	if len(all.Sandboxes) != 0 {
		t.Errorf("%+v", all)
	}
	var d sandboxDoc
	c.want(200, "PATCH", box, doc{"labels": doc{}, "lifetime": "2h", "idle_timeout": 90}, &d)
	if d.IdleTimeout != duration(90*time.Second) || time.Until(*d.Deadline) < time.Hour || len(d.Labels) != 0 {
		t.Errorf("%+v", d)
	}
	c.want(200, "DELETE", box, nil, &d)
	if d.State != "ended" || d.Ended.Cause != sandboxes.CauseClosed || d.Ended.Report == nil {
		t.Errorf("%+v", d)
	}
	c.refused(410, codeEnded, "POST", box+"/exec", doc{"argv": []string{"echo"}})
	c.want(200, "GET", box, nil, &d) // the tombstone
	_, text := c.send("GET", box+"/events", nil)
	if f := frames(t, text); f[len(f)-1].Type != sandboxes.FrameEnded || f[0].Type != sandboxes.FrameStarted {
		t.Errorf("%s", text)
	}
}

func TestFramesAreResumed(t *testing.T) {
	_, c := newServer(t, nil)
	box := c.open(doc{"policy": doc{"output_limit": "none"}})
	c.head = map[string]string{"Accept": ndjson}
	answer, text := c.send("POST", box+"/exec", doc{"argv": []string{"flood"}})
	c.head = nil
	all := frames(t, text)
	total := 0
	for i, f := range all {
		total += len(f.Data)
		if f.Seq != uint64(i+1) {
			t.Fatalf("%d is %d", i, f.Seq)
		}
	}
	if total != 16<<20 || all[len(all)-1].Type != sandboxes.FrameExit {
		t.Errorf("%d bytes, then %+v", total, all[len(all)-1])
	}
	process := answer.Header.Get("Location")
	last := all[len(all)-1].Seq
	_, text = c.send("GET", fmt.Sprintf("%s/output?from=%d&follow=1", process, last-2), nil)
	if rest := frames(t, text); len(rest) != 2 || rest[1].Seq != last {
		t.Errorf("%s", text)
	}
	c.refused(410, codeDropped, "GET", process+"/output?from=1", nil)
	c.refused(400, codeBadRequest, "GET", fmt.Sprintf("%s/output?from=%d", process, last+1), nil)
	_, text = c.send("GET", process+"/output", nil)
	if rest := frames(t, text); rest[0].Seq == 1 || rest[len(rest)-1].Seq != last {
		t.Errorf("what is left: %d to %d", rest[0].Seq, rest[len(rest)-1].Seq)
	}
}

func TestAProcessThatIsDetached(t *testing.T) {
	_, c := newServer(t, nil)
	box := c.open(doc{})
	var p processDoc
	process := c.want(201, "POST", box+"/exec", doc{"argv": []string{"cat"}, "open_stdin": true, "detach": true, "tag": "t"}, &p).Header.Get("Location")
	var n struct{ Bytes int64 }
	c.want(200, "POST", process+"/stdin", "one ", &n)
	c.want(200, "POST", process+"/stdin?eof=1", "two", &n)
	if n.Bytes != 3 {
		t.Errorf("%d", n.Bytes)
	}
	_, text := c.send("GET", process+"/output?follow=1", nil)
	got := ""
	for _, f := range frames(t, text) {
		got += f.Data
	}
	if got != "one two" {
		t.Errorf("%s", text)
	}
	c.refused(409, codeNoStdin, "POST", process+"/stdin", "more")
	c.refused(410, codeEnded, "POST", process+"/signal", doc{"signal": "TERM"})
	process = c.want(201, "POST", box+"/exec", doc{"argv": []string{"sleep"}, "detach": true}, &p).Header.Get("Location")
	c.refused(422, codeBadRequest, "POST", process+"/signal", doc{"signal": "NONE"})
	c.refused(409, codeBadRequest, "POST", process+"/resize", doc{"rows": 1})
	c.refused(409, codeNoStdin, "POST", process+"/stdin", "x")
	c.want(204, "POST", process+"/signal", doc{"signal": "SIGKILL"}, nil)
	_, _ = c.send("GET", process+"/output?follow=1", nil)
	c.want(200, "GET", process, nil, &p)
	if p.State != "exited" || p.Report == nil {
		t.Errorf("%+v", p)
	}
	var all struct{ Processes []processDoc }
	c.want(200, "GET", box+"/processes", nil, &all)
	if len(all.Processes) != 2 || all.Processes[0].Tag != "t" {
		t.Errorf("%+v", all)
	}
	c.refused(404, codeNotFound, "GET", box+"/processes/3", nil)
}

// A request may wait longer than a body may take.
func TestAProcessMayRunLongerThanABodyMayTake(t *testing.T) {
	defer func(d time.Duration) { bodyTime = d }(bodyTime)
	bodyTime = 50 * time.Millisecond
	_, c := newServer(t, nil)
	box := c.open(doc{})
	var r resultDoc
	c.want(200, "POST", box+"/exec", doc{"argv": []string{"doze"}}, &r)
	if string(r.Stdout) != "awake" {
		t.Errorf("%+v", r)
	}
}

func TestATerminalIsAConnection(t *testing.T) {
	_, c := newServer(t, nil)
	box := c.open(doc{})
	var p processDoc
	process := c.want(201, "POST", box+"/exec", doc{"argv": []string{"cat"}, "tty": doc{"rows": 24, "cols": 80}, "detach": true}, &p).Header.Get("Location")
	c.refused(426, codeBadRequest, "GET", process+"/tty", nil)
	c.want(204, "POST", process+"/resize", doc{"rows": 30, "cols": 90}, nil)
	r, _ := http.NewRequestWithContext(t.Context(), "GET", c.base+process+"/tty", nil)
	r.Header.Set("Upgrade", ttyProtocol)
	r.Header.Set("Connection", "Upgrade")
	answer, err := c.Do(r)
	if err != nil || answer.StatusCode != 101 {
		t.Fatalf("%v, %v", answer, err)
	}
	conn := answer.Body.(io.ReadWriteCloser)
	fmt.Fprintln(conn, "typed")
	line, err := bufio.NewReader(conn).ReadString('\n')
	if line != "typed\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	conn.Close()
	c.want(204, "POST", process+"/signal", doc{"signal": "KILL"}, nil)
}

func TestFiles(t *testing.T) {
	_, c := newServer(t, nil)
	box := c.open(doc{})
	files := box + "/files/tmp/"
	c.want(204, "PUT", files+"d/e/f%20g?mode=0600", "hello, world", nil)
	if _, text := c.send("GET", files+"d/e/f%20g", nil); string(text) != "hello, world" {
		t.Errorf("%s", text)
	}
	c.head = map[string]string{"Range": "bytes=7-"}
	answer, text := c.send("GET", files+"d/e/f%20g", nil)
	c.head = nil
	if answer.StatusCode != 206 && answer.StatusCode != 200 || !strings.HasSuffix(string(text), "world") {
		t.Errorf("%s %s", answer.Status, text)
	}
	if answer, text := c.send("HEAD", files+"d/e/f%20g", nil); answer.StatusCode != 200 || len(text) != 0 {
		t.Errorf("%s %s", answer.Status, text)
	}
	var e entryDoc
	c.want(200, "GET", files+"d/e/f%20g?stat", nil, &e)
	if e.Type != "file" || e.Size != 12 || e.Mode != "0600" {
		t.Errorf("%+v", e)
	}
	var all struct{ Entries []entryDoc }
	c.want(200, "GET", files+"d?list", nil, &all)
	if len(all.Entries) != 1 || all.Entries[0].Type != "directory" || all.Entries[0].Name != "e" {
		t.Errorf("%+v", all)
	}
	c.refused(422, codeFile, "GET", files+"d", nil)
	c.refused(404, codeFile, "GET", files+"nothing", nil)
	c.refused(400, codeBadRequest, "PUT", files+"x?mode=9", "")
	_, packed := c.send("GET", files+"d?tar", nil)
	c.want(204, "PUT", files+"copy?tar", string(packed), nil)
	if _, text := c.send("GET", files+"copy/e/f%20g", nil); string(text) != "hello, world" {
		t.Errorf("%s", text)
	}
	c.want(204, "DELETE", files+"d?recursive", nil, nil)
	c.refused(404, codeFile, "GET", files+"d?list", nil)
	c.want(204, "PUT", files+"empty?dir", nil, nil)
	c.want(204, "DELETE", files+"empty", nil, nil)
}

func TestTarsThatLeadOutAreRefused(t *testing.T) {
	_, c := newServer(t, nil)
	box := c.open(doc{})
	for name, h := range map[string]*tar.Header{
		"a name above":     {Typeflag: tar.TypeReg, Name: "../x", Mode: 0o600},
		"an absolute name": {Typeflag: tar.TypeReg, Name: "/etc/x", Mode: 0o600},
		"a hard link":      {Typeflag: tar.TypeLink, Name: "x", Linkname: "/etc/passwd"},
		"a link outside":   {Typeflag: tar.TypeSymlink, Name: "../x", Linkname: "y"},
		"a device":         {Typeflag: tar.TypeChar, Name: "x"},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		must.Do(t, w.WriteHeader(h))
		w.Close()
		answer, text := c.send("PUT", box+"/files/tmp/t?tar", b.String())
		if answer.StatusCode != 422 {
			t.Errorf("%s: %s %s", name, answer.Status, text)
		}
	}
	c.refused(422, codeBadRequest, "PUT", box+"/files/tmp/t?tar", strings.Repeat("no tar", 1000))
}

func TestARun(t *testing.T) {
	_, c := newServer(t, nil)
	var r ranDoc
	c.want(200, "POST", "/v1/runs", doc{"argv": []string{"copy", "/tmp/in", "/tmp/out"}, "files": doc{"in": "data"}, "collect": []string{"out", "none"}}, &r)
	if string(r.Files["out"]) != "data" || r.Missing["none"] == "" || r.Sandbox == nil || r.Report.Status != "OK" {
		t.Errorf("%+v", r)
	}
	c.head = map[string]string{"Accept": ndjson}
	_, text := c.send("POST", "/v1/runs", doc{"argv": []string{"echo", "x"}})
	if f := frames(t, text); f[len(f)-1].Type != sandboxes.FrameExit {
		t.Errorf("%s", text)
	}
	c.refused(422, codeBadRequest, "POST", "/v1/runs", doc{"argv": []string{"echo"}, "collect": []string{"x"}})
	c.head = nil
	c.refused(422, codePolicy, "POST", "/v1/runs", doc{})
	var all struct{ Sandboxes []sandboxDoc }
	c.want(200, "GET", "/v1/sandboxes?state=running", nil, &all)
	if len(all.Sandboxes) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestRequestsThatAreWrongAreProblems(t *testing.T) {
	_, c := newServer(t, nil)
	box := c.open(doc{})
	for _, p := range []doc{
		{"memory_limit": "lots"}, {"nonsense": 1}, {"report": "/tmp/x"}, {"time-limit": "1s"}, {"allow_network": "x"},
		{"memory_limit": []string{"1M"}}, {"memory_limit": nil}, {"memory_limit": doc{}}, {"workdir": "rw"}, {"profile": "none such"},
	} {
		c.refused(422, codePolicy, "POST", "/v1/sandboxes", doc{"policy": p})
	}
	c.refused(422, codePolicy, "POST", "/v1/sandboxes", doc{"dir": "relative"})
	c.refused(422, codePolicy, "POST", "/v1/sandboxes", doc{"lifetime": "long"})
	for _, body := range []string{"", "{", "[]", `{"argv": 1}`, `{"argv": ["echo"]} {}`, `{"argv": ["echo"], "what": 1}`, `{"stdin": 1}`} {
		c.refused(400, codeBadRequest, "POST", box+"/exec", body)
	}
	c.refused(422, codePolicy, "POST", box+"/exec", doc{})
	c.refused(422, codeBadRequest, "POST", box+"/exec", doc{"argv": []string{"a\x00b"}})
	if _, text := c.send("POST", "/v1/runs", doc{"argv": "echo"}); !bytes.Contains(text, []byte("the body: argv can't be of the kind string")) {
		t.Errorf("%s", text)
	}
	c.refused(422, codeBadRequest, "POST", box+"/exec", doc{"argv": []string{"cat"}, "env": doc{"A=B": "c"}})
	c.refused(422, codeBadRequest, "POST", box+"/exec", doc{"argv": []string{"cat"}, "stdin": "x", "open_stdin": true})
	c.refused(422, codeDir, "POST", box+"/exec", doc{"argv": []string{"cat"}, "dir": "/nowhere"})
	c.refused(422, codeDir, "POST", box+"/exec", doc{"argv": []string{"cat"}, "dir": "/a\x00b"})
	c.refused(413, codeTooLarge, "POST", box+"/exec", `{"stdin": "`+strings.Repeat("x", maxBody)+`"}`)
	c.refused(404, codeNotFound, "GET", "/v1/sandboxes/none", nil)
	c.refused(404, codeNotFound, "GET", "/nothing", nil)
	c.refused(400, codeBadRequest, "GET", "/v1//sandboxes", nil)
	c.refused(400, codeBadRequest, "GET", "/v1/../v1/sandboxes", nil)
	c.refused(405, codeMethod, "PUT", "/v1/sandboxes", nil)
}

func TestAKeyOfIdempotencyCreatesOnce(t *testing.T) {
	_, c := newServer(t, nil)
	c.head = map[string]string{"Idempotency-Key": "one"}
	var a, b sandboxDoc
	c.want(201, "POST", "/v1/sandboxes", doc{}, &a)
	if answer := c.want(201, "POST", "/v1/sandboxes", doc{}, &b); a.ID != b.ID || answer.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s and %s", a.ID, b.ID)
	}
	c.refused(409, codeConflict, "POST", "/v1/sandboxes", doc{"name": "other"})
	c.head["Idempotency-Key"] = "two"
	c.refused(422, codePolicy, "POST", "/v1/sandboxes", doc{"policy": doc{"nonsense": 1}})
	c.refused(422, codePolicy, "POST", "/v1/sandboxes", doc{"policy": doc{"nonsense": 1}}) // an error is not kept
	ids := make(chan string)
	c.head["Idempotency-Key"] = "three"
	for range 8 {
		go func() {
			var d sandboxDoc
			c.want(201, "POST", "/v1/sandboxes", doc{}, &d)
			ids <- d.ID
		}()
	}
	first := <-ids
	for range 7 {
		if id := <-ids; id != first {
			t.Errorf("%s and %s", first, id)
		}
	}
}

func TestPoliciesStayBelowTheCeiling(t *testing.T) {
	_, c := newServer(t, func(s *Server) {
		p, err := config.Profile("standard")
		must.Do(t, err)
		s.Ceiling = &p
	})
	box := c.open(doc{"policy": doc{"profile": "standard", "memory_limit": "16M"}})
	c.want(200, "GET", box, nil, nil)
	for _, p := range []doc{
		{"profile": "standard", "memory_limit": "none"}, {"profile": "standard", "allow_network": []string{"example.org"}},
		{"profile": "standard", "allow_read": []string{"/root"}}, {"profile": "development"}, {"profile": "standard", "seccomp": "off"},
		{"profile": "standard", "allow_partial": []string{"all"}},
	} {
		c.refused(403, codeCeiling, "POST", "/v1/sandboxes", doc{"policy": p})
	}
	c.refused(403, codeCeiling, "POST", "/v1/runs", doc{"argv": []string{"echo"}, "policy": doc{"profile": "standard"}, "dir": "/"})
}

func TestTCPNeedsATokenAndItsOwnName(t *testing.T) {
	one, two := strings.Repeat("1", 32), strings.Repeat("2", 40)
	tokens, err := ParseTokens("# of two\n" + one + "\n\n" + two + "\n")
	if err != nil || len(tokens) != 2 {
		t.Fatal(err)
	}
	if _, err := ParseTokens("short"); err == nil {
		t.Error("a short token")
	}
	l, err := sockets.Listen("127.0.0.1:0", false)
	must.Do(t, err)
	s, _ := newServer(t, func(s *Server) { s.Tokens = tokens })
	other := &Server{Manager: s.Manager, Sources: s.Sources, Tokens: tokens}
	serveOn(t, other, l)
	c := &client{Client: &http.Client{}, t: t, base: "http://" + l.Addr().String(), head: map[string]string{}}
	c.want(200, "GET", "/v1/healthz", nil, nil)
	for _, word := range []string{"", "Bearer " + strings.Repeat("3", 32), "Basic " + one, "Bearer"} {
		c.head["Authorization"] = word
		c.refused(401, codeUnauthorized, "GET", "/v1/sandboxes", nil)
	}
	c.head["Authorization"] = "Bearer " + one
	box := c.open(doc{"name": "mine"})
	c.head["Authorization"] = "Bearer " + two
	c.refused(404, codeNotFound, "GET", box, nil)
	c.refused(404, codeNotFound, "DELETE", box, nil)
	c.refused(404, codeNotFound, "POST", "/v1/sandboxes/mine/exec", doc{"argv": []string{"echo"}})
	// What others have asked for, and the pools, are shown to the server's own user alone.
	c.head["Authorization"] = "Bearer " + two
	if _, body := c.send("GET", "/v1/metrics", nil); !bytes.Contains(body, []byte("\nconfine_requests_total 4\n")) || !bytes.Contains(body, []byte("\nconfine_problems_total 3\n")) {
		t.Errorf("%s", body)
	}
	c.refused(403, codeForbidden, "GET", "/v1/pools", nil)
	for owner, want := range map[sandboxes.Owner]int64{OwnerOf(os.Geteuid()): 11, "nobody": 0} {
		if got := other.stats.shown(owner).requests; got != want {
			t.Errorf("%q is told of %d requests, and not of %d", owner, got, want)
		}
	}
	for _, host := range []string{"localhost", "127.0.0.1", "192.0.2.1"} { // no names but these
		c.head = map[string]string{"Authorization": "Bearer " + one, "Host": net.JoinHostPort(host, strings.Split(l.Addr().String(), ":")[1])}
		c.want(200, "GET", "/v1/sandboxes", nil, nil)
	}
	for k, v := range map[string]string{"Origin": "http://evil.test", "Sec-Fetch-Site": "cross-site", "Host": "evil.test"} {
		c.head = map[string]string{"Authorization": "Bearer " + one, k: v}
		c.refused(403, codeForbidden, "GET", "/v1/sandboxes", nil)
	}
	if err := (&Server{Manager: s.Manager}).Serve(t.Context(), l); err == nil {
		t.Error("a TCP address without tokens")
	}
}

func TestTheDescriptionHasEveryRoute(t *testing.T) {
	var d struct {
		Paths map[string]map[string]json.RawMessage
	}
	must.Do(t, json.Unmarshal(openAPI, &d))
	var described, served []string
	for path, methods := range d.Paths {
		for m := range methods {
			if m != "parameters" {
				described = append(described, strings.ToUpper(m)+" "+path)
			}
		}
	}
	for path, methods := range new(Server).routes() {
		for m := range methods {
			served = append(served, m+" "+strings.ReplaceAll(path, "...", ""))
		}
	}
	slices.Sort(described)
	slices.Sort(served)
	if !slices.Equal(described, served) {
		t.Errorf("described:\n%s\nserved:\n%s", strings.Join(described, "\n"), strings.Join(served, "\n"))
	}
}
