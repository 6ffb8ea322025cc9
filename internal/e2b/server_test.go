package e2b

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/confine/confinetest"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/sandboxes"
)

// play plays bash as far as the tests have commands.
func play(c *confinetest.Call) (r confinetest.Result) {
	switch c.Args[len(c.Args)-1] {
	case "echo out; echo err >&2":
		fmt.Fprintln(c.Stdout, "out")
		fmt.Fprintln(c.Stderr, "err")
	case "where":
		fmt.Fprintln(c.Stdout, c.Dir, slices.Contains(c.Env, "A=1"))
	case "cat":
		_, _ = io.Copy(c.Stdout, c.Stdin)
	case "sleep", "-l":
		<-c.Context.Done()
	case "exit 3":
		r.Code = 3
	}
	return r
}

// client speaks to a server whose owners are "key of NAME".
type client struct {
	t      *testing.T
	server *Server
	base   string
	values map[string]string // of {id}, {token}, {key}, {watcher}
	// What is left of the shares.
	requests, large atomic.Int64
}

func share(left *atomic.Int64) func(sandboxes.Owner, *http.Request) (func(), bool) {
	return func(sandboxes.Owner, *http.Request) (func(), bool) {
		if left.Add(-1) < 0 {
			left.Add(1)
			return nil, false
		}
		return func() { left.Add(1) }, true
	}
}

func newServer(t *testing.T) *client {
	t.Helper()
	mock := &confinetest.Backend{Handle: play}
	c := &client{t: t, values: map[string]string{"{key}": "key of a"}}
	c.requests.Store(100)
	c.large.Store(100)
	manager := sandboxes.New(sandboxes.Options{Backend: func(*config.Policy) backend.Backend { return mock }, MaxPerOwner: 5})
	s := New(Options{
		Manager: manager, BodyTime: 5 * time.Second, WriteTime: 5 * time.Second,
		Request: share(&c.requests), Large: share(&c.large),
		Admit: func(r *http.Request) error {
			if r.Header.Get("Origin") != "" {
				return &failure{http.StatusForbidden, "not from there"}
			}
			return nil
		},
		Owner: func(r *http.Request) (sandboxes.Owner, error) {
			name, ok := strings.CutPrefix(r.Header.Get("X-Api-Key"), "key of ")
			if !ok {
				return "", &failure{http.StatusUnauthorized, "no key"}
			}
			return sandboxes.Owner(name), nil
		},
		Template: func(name string) bool { return name == "base" },
		Spec: func(template string, rules *Rules) (*backend.Spec, error) {
			if _, _, err := rules.Words(); err != nil {
				return nil, err
			}
			if template != "base" {
				return nil, &failure{http.StatusNotFound, "template not found"}
			}
			p := config.Default()
			p.TimeLimit = 0
			p.Filesystem.Mounts = []config.Mount{{Dst: Home, Size: 1 << 20}}
			return &backend.Spec{Policy: &p, Dir: "/", Environ: []string{}}, nil
		},
		Explain: func(err error) (int, string) {
			if _, ok := errors.AsType[*sandboxes.QuotaError](err); ok {
				return http.StatusTooManyRequests, err.Error()
			}
			return http.StatusInternalServerError, err.Error()
		},
	})
	web := httptest.NewServer(s)
	t.Cleanup(func() { manager.Close(); web.Close() })
	c.server, c.base = s, web.URL
	return c
}

// request is one as an SDK sends it.
type request struct {
	Do   string            `json:"do"` // method and target
	Head map[string]string `json:"head"`
	Body string            `json:"body"`
	B64  []byte            `json:"b64"`
}

func (c *client) fill(text string) string {
	for name, value := range c.values {
		text = strings.ReplaceAll(text, name, value)
	}
	return text
}

// send sends a request and gives the answer, whose body is not read.
func (c *client) send(r *request) *http.Response {
	c.t.Helper()
	method, target, _ := strings.Cut(r.Do, " ")
	body := r.B64
	if body == nil {
		body = []byte(c.fill(r.Body))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	c.t.Cleanup(cancel)
	q, err := http.NewRequestWithContext(ctx, method, c.base+c.fill(target), bytes.NewReader(body))
	must.Do(c.t, err)
	for name, value := range r.Head {
		q.Header.Set(name, c.fill(value))
	}
	answer, err := http.DefaultTransport.RoundTrip(q)
	must.Do(c.t, err)
	c.t.Cleanup(func() { answer.Body.Close() })
	return answer
}

func (c *client) text(r *request) (status int, text string) {
	c.t.Helper()
	answer := c.send(r)
	b, err := io.ReadAll(answer.Body)
	must.Do(c.t, err)
	return answer.StatusCode, string(b)
}

// open makes a sandbox, whose {id} and {token} requests can name.
func (c *client) open() {
	c.t.Helper()
	status, text := c.text(&request{Do: "POST /v2/sandboxes", Head: map[string]string{"X-API-Key": "{key}"}, Body: `{"templateID": "base"}`})
	c.learn(text)
	if status != 201 {
		c.t.Fatal(status, text)
	}
}

// learn keeps the names that an answer has.
func (c *client) learn(text string) {
	var d struct{ SandboxID, EnvdAccessToken, WatcherID string }
	if json.Unmarshal([]byte(text), &d) != nil {
		return
	}
	for name, value := range map[string]string{"{id}": d.SandboxID, "{token}": d.EnvdAccessToken, "{watcher}": d.WatcherID} {
		if value != "" && c.values[name] == "" {
			c.values[name] = value
		}
	}
}

// head is that of a request about what is inside.
func head(contentType string, more ...string) map[string]string {
	h := map[string]string{"E2b-Sandbox-Id": "{id}", "X-Access-Token": "{token}", "Content-Type": contentType}
	for i := 0; i < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return h
}

func envelope(flags byte, text string) string {
	return string(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(text)))) + text
}

// call calls what answers by one message.
func (c *client) call(name, message string) (status int, text string) {
	c.t.Helper()
	return c.text(&request{Do: "POST /" + name, Head: head(typeUnary), Body: message})
}

// stream gives the envelopes of an answer, each with its flags in front, as they are to its end.
func (c *client) stream(name, message string, more ...string) []string {
	c.t.Helper()
	answer := c.send(&request{Do: "POST /" + name, Head: head(typeStream, more...), Body: envelope(0, message)})
	return envelopes(c.t, answer.Body)
}

func envelopes(t *testing.T, r io.Reader) (all []string) {
	t.Helper()
	for {
		var h [5]byte
		if _, err := io.ReadFull(r, h[:]); err == io.EOF {
			return all
		} else if err != nil {
			t.Error(err)
			return all
		}
		text := make([]byte, binary.BigEndian.Uint32(h[1:]))
		if _, err := io.ReadFull(r, text); err != nil {
			t.Error(err)
			return all
		}
		all = append(all, fmt.Sprint(h[0])+" "+string(text))
	}
}

func in(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// answers are what the SDKs' requests are answered with, where it matters to them: a status, and an expression.
var answers = map[string]struct {
	status int
	says   string
}{
	"POST /v2/sandboxes":                           {201, `"sandboxID":"\w{26}".*"envdVersion":"0.5.7","envdAccessToken":"\w{64}"`},
	"POST /process.Process/Start":                  {200, `^.{5}\{"event":\{"start":\{"pid":\d\}\}\}`},
	"POST /process.Process/SendInput":              {200, `^\{\}`},
	"POST /process.Process/StreamInput":            {200, `^.{5}\{\}.{5}\{\}$`},
	"POST /process.Process/CloseStdin":             {200, `^\{\}`},
	"POST /process.Process/SendSignal":             {200, `^\{\}`},
	"POST /process.Process/Update":                 {200, `^\{\}`},
	"POST /process.Process/List":                   {200, `\{"config":\{"cmd":"/bin/bash","args":\["-l","-c","cat"\]\},"pid":2\}`},
	"POST /files?path=notes%2Fa.txt":               {200, `^\[\{"name":"a.txt","type":"file","path":"/home/user/notes/a.txt"\}\]`},
	"POST /files":                                  {200, `"/home/user/b"\},\{"name":"c","type":"file","path":"/tmp/c"`},
	"POST /files?path=d%2Fg":                       {200, `"/home/user/d/g"`},
	"POST /files?path=packed":                      {200, `packed`},
	"GET /files?path=notes%2Fa.txt":                {200, `^text$`},
	"POST /filesystem.Filesystem/ListDir":          {200, `"name":"a.txt","type":"FILE_TYPE_FILE","path":"/home/user/notes/a.txt","size":"4","mode":\d+,"permissions":"-rw-r--r--"`},
	"POST /filesystem.Filesystem/MakeDir":          {200, `"type":"FILE_TYPE_DIRECTORY","path":"/home/user/d/e"`},
	"POST /filesystem.Filesystem/Move":             {200, `"path":"/home/user/d/f"`},
	"POST /filesystem.Filesystem/CreateWatcher":    {200, `"watcherId":"\w{26}"`},
	"POST /filesystem.Filesystem/GetWatcherEvents": {200, `\{"name":"g","type":"EVENT_TYPE_CREATE"\}`},
	"POST /filesystem.Filesystem/WatchDir":         {200, `^.{5}\{"start":\{\}\}`},
	"POST /sandboxes/{id}/timeout":                 {204, `^$`},
	"GET /sandboxes/{id}":                          {200, `"endAt":".*"state":"running".*"metadata":\{"of":"a b/c"\}`},
	"POST /v2/sandboxes/{id}/connect":              {200, `"envdAccessToken":"\w{64}"`},
	"GET /health":                                  {204, `^$`},
	"DELETE /sandboxes/{id}":                       {204, `^$`},
	"GET /v2/sandboxes":                            {200, `^\[\{"templateID":"base"`},
}

// What the SDKs were seen to send is answered as they were seen to understand it.
func TestWhatTheSDKsSend(t *testing.T) {
	for _, sdk := range []string{"python", "js"} {
		t.Run(sdk, func(t *testing.T) {
			f, err := os.Open("testdata/" + sdk + ".ndjson")
			must.Do(t, err)
			defer f.Close()
			c := newServer(t)
			var streams sync.WaitGroup
			defer streams.Wait()
			lines := bufio.NewScanner(f)
			n := 0
			for ; lines.Scan(); n++ {
				var r request
				must.Do(t, json.Unmarshal(lines.Bytes(), &r))
				want, ok := answers[r.Do]
				if !ok {
					path, _, _ := strings.Cut(r.Do, "?")
					if want, ok = answers[path]; !ok {
						want.status, want.says = 200, ""
					}
				}
				if strings.HasSuffix(r.Do, "GetWatcherEvents") {
					time.Sleep(500 * time.Millisecond) // the SDK's caller waited, too
				}
				answer := c.send(&r)
				check := func(text string) {
					if answer.StatusCode != want.status || !regexp.MustCompile("(?s)"+want.says).MatchString(text) {
						t.Errorf("%s: %d %q", r.Do, answer.StatusCode, text)
					}
				}
				if r.Head["content-type"] == typeStream && !strings.HasSuffix(r.Do, "StreamInput") {
					first := make([]byte, 5)
					_, _ = io.ReadFull(answer.Body, first)
					streams.Go(func() {
						text, err := io.ReadAll(answer.Body)
						if err != nil {
							t.Errorf("%s: %v", r.Do, err)
						}
						check(string(first) + string(text))
					})
					continue
				}
				text, err := io.ReadAll(answer.Body)
				if err != nil {
					t.Errorf("%s: %v", r.Do, err)
				}
				c.learn(string(text))
				check(string(text))
			}
			if n < 25 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestHowCommandsEnd(t *testing.T) {
	c := newServer(t)
	c.open()
	start := func(command, more string) string {
		return fmt.Sprintf(`{"process": {"cmd": "/bin/bash", "args": ["-c", %q]%s}, "stdin": false}`, command, more)
	}
	for name, want := range map[string][]string{
		start("echo out; echo err >&2", ""):                {`0 {"event":{"data":{"stdout":"` + in("out\n") + `"}}}`, `0 {"event":{"data":{"stderr":"` + in("err\n") + `"}}}`, `0 {"event":{"end":{"exitCode":0,"exited":true,"status":"exit status 0"}}}`, `2 {}`},
		start("exit 3", ""):                                {`0 {"event":{"end":{"exitCode":3,"exited":true,"status":"exit status 3","error":"exited 3"}}}`},
		start("where", `, "envs": {"A": "1"}, "cwd": "~"`): {in("/home/user true\n")},
	} {
		got := strings.Join(c.stream("process.Process/Start", name), "\n")
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %s\nwithout %s", name, got, part)
			}
		}
	}
	if got := c.stream("process.Process/Start", start("sleep", ""), "Connect-Timeout-Ms", "200"); !strings.Contains(got[len(got)-1], `2 {"error":{"code":"deadline_exceeded"`) {
		t.Error(got)
	}
	for message, code := range map[string]string{
		start("where", `, "cwd": "/none"`): "invalid_argument", start("where", `, "envs": {"=": "1"}`): "invalid_argument", `{"process": {"cmd": "a\u0000b"}}`: "invalid_argument",
		`{}`: "invalid_argument", `{"process": {}}`: "invalid_argument", `{"process": {"cmd": "x"}, "pty": {}}`: "invalid_argument", `{"process": 1}`: "invalid_argument", `not JSON`: "invalid_argument",
	} {
		if got := c.stream("process.Process/Start", message); len(got) != 1 || !strings.Contains(got[0], `2 {"error":{"code":"`+code+`"`) {
			t.Errorf("%s: %q", message, got)
		}
	}
}

func TestAStreamOfASandboxThatEnds(t *testing.T) {
	defer func(was time.Duration) { keepalive = was }(keepalive)
	keepalive = 50 * time.Millisecond
	c := newServer(t)
	c.open()
	process := c.send(&request{Do: "POST /process.Process/Start", Head: head(typeStream), Body: envelope(0, `{"process": {"cmd": "sleep"}}`)})
	files := c.send(&request{Do: "POST /filesystem.Filesystem/WatchDir", Head: head(typeStream), Body: envelope(0, `{"path": "."}`)})
	time.Sleep(200 * time.Millisecond)
	if status, _ := c.text(&request{Do: "DELETE /sandboxes/{id}", Head: map[string]string{"X-API-Key": "{key}"}}); status != 204 {
		t.Error(status)
	}
	for what, answer := range map[string]*http.Response{"start": process, "watch": files} {
		got := envelopes(t, answer.Body)
		if len(got) < 3 || !strings.Contains(strings.Join(got, ""), `"keepalive":{}`) || !strings.HasPrefix(got[len(got)-1], "2 ") {
			t.Errorf("%s: %q", what, got)
		}
		if what == "start" && !strings.Contains(got[len(got)-1], `"code":"unavailable","message":"The sandbox was not found"`) {
			t.Errorf("%q", got)
		}
	}
	status, text := c.text(&request{Do: "GET /health", Head: head("")})
	if status != 502 || !strings.Contains(text, "was not found") {
		t.Error(status, text)
	}
	for until := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		c.server.mu.Lock()
		n := len(c.server.boxes)
		c.server.mu.Unlock()
		if n == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%d sandboxes are remembered", n)
		}
	}
}

func TestWatchersAreBounded(t *testing.T) {
	c := newServer(t)
	c.open()
	for range maxWatchers {
		if status, text := c.call("filesystem.Filesystem/CreateWatcher", `{"path": "."}`); status != 200 {
			t.Fatal(status, text)
		}
	}
	if status, text := c.call("filesystem.Filesystem/CreateWatcher", `{"path": "."}`); status != 429 || !strings.Contains(text, `"resource_exhausted"`) {
		t.Error(status, text)
	}
	b := c.server.find(c.values["{id}"])
	p := &poll{}
	for range maxEvents + 1 {
		b.keep(p, []backend.FileEvent{{Op: backend.FileCreated, Name: "x"}}, nil)
	}
	if p.err != errLost || len(p.events) != maxEvents {
		t.Errorf("%d events, %v", len(p.events), p.err)
	}
}
