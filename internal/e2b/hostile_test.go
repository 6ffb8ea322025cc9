package e2b

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
)

// Each sandbox has a token of its own, each owner its own sandboxes, and nobody is told which others there are.
func TestNothingOfAnother(t *testing.T) {
	c := newServer(t)
	c.open()
	id, token := c.values["{id}"], c.values["{token}"]
	delete(c.values, "{id}")
	delete(c.values, "{token}")
	c.values["{key}"] = "key of b"
	c.open()
	own, ownToken := c.values["{id}"], c.values["{token}"]
	if id == own || token == ownToken {
		t.Fatal("the same twice")
	}
	refused := map[string]map[string]string{
		"another's, by one's own token": {"E2b-Sandbox-Id": id, "X-Access-Token": ownToken},
		"one's own, by another's token": {"E2b-Sandbox-Id": own, "X-Access-Token": token},
		"no token":                      {"E2b-Sandbox-Id": id},
		"no sandbox":                    {"X-Access-Token": token},
		"the owner's key":               {"E2b-Sandbox-Id": id, "X-Access-Token": "key of a", "X-API-Key": "key of a"},
		"none such":                     {"E2b-Sandbox-Id": strings.Repeat("a", 26), "X-Access-Token": token},
		"by its host":                   {"X-Access-Token": token, "Host": "49983-" + id + ".localhost", "X-Forwarded-Host": "49983-" + id + ".localhost"},
	}
	var said string
	for what, head := range refused {
		for _, do := range []string{"GET /health", "GET /files?path=x", "POST /files?path=x", "POST /process.Process/List", "POST /process.Process/Start", "POST /process.Process/StreamInput"} {
			status, text := c.text(&request{Do: do, Head: head})
			said = cmp.Or(said, text)
			if status != 401 || text != said {
				t.Errorf("%s: %s: %d %s", what, do, status, text)
			}
		}
	}
	for _, do := range []string{"GET /sandboxes/" + id, "DELETE /sandboxes/" + id, "POST /sandboxes/" + id + "/timeout", "POST /sandboxes/" + id + "/refreshes", "POST /v2/sandboxes/" + id + "/connect",
		"POST /sandboxes/" + id + "/fork", "POST /sandboxes/" + id + "/snapshots", "PUT /sandboxes/" + id + "/network", "GET /sandboxes/" + id + "/metrics"} {
		status, text := c.text(&request{Do: do, Head: map[string]string{"X-API-Key": "{key}"}, Body: "{}"})
		if status != 404 || !strings.Contains(text, `"code":404`) {
			t.Errorf("%s: %d %s", do, status, text)
		}
		if status, _ := c.text(&request{Do: do, Body: "{}"}); status != 401 {
			t.Errorf("%s without a key: %d", do, status)
		}
	}
	if _, text := c.text(&request{Do: "GET /v2/sandboxes", Head: map[string]string{"X-API-Key": "{key}"}}); strings.Contains(text, id) || !strings.Contains(text, own) || strings.Contains(text, "AccessToken") {
		t.Error(text)
	}
	if _, text := c.text(&request{Do: "GET /sandboxes/metrics?sandbox_ids=" + id + "," + own, Head: map[string]string{"X-API-Key": "{key}"}}); strings.Contains(text, id) || !strings.Contains(text, own) {
		t.Error(text)
	}
	if status, _ := c.text(&request{Do: "GET /v2/sandboxes?nextToken=" + id, Head: map[string]string{"X-API-Key": "{key}"}}); status != 400 {
		t.Errorf("another's sandbox as a place in the list: %d", status)
	}
	if status, _ := c.text(&request{Do: "GET /health", Head: head("", "Origin", "http://evil.example")}); status != 403 {
		t.Errorf("from a page: %d", status)
	}
	if status, text := c.text(&request{Do: "GET /", Head: head("", "E2b-Sandbox-Port", "8080")}); status != 401 {
		t.Error(status, text)
	}
	if status, text := c.text(&request{Do: "GET /health", Head: head("", "E2b-Sandbox-Port", "8080")}); status != 502 || !strings.Contains(text, "port is not open") {
		t.Error(status, text)
	}
}

func TestQuotasAndWhatIsNotHad(t *testing.T) {
	c := newServer(t)
	key := map[string]string{"X-API-Key": "{key}"}
	for message, want := range map[string]int{
		`{"templateID": "none"}`: 404, `{"templateID": "base", "timeout": -1}`: 400, `{"templateID": "base", "timeout": 99999999999}`: 400, `{"templateID": "base", "timeout": "x"}`: 400,
		`{"templateID": "base", "autoPause": true}`: 400, `{"templateID": "base", "mcp": {"x": {}}}`: 400, `{"templateID": "base", "network": {"dnsServers": ["192.0.2.1"]}}`: 400,
		`{"templateID": "base", "volumeMounts": [{}]}`: 400, `{"templateID": "base", "iam": {"tokens": {}}}`: 400, `{"templateID": "base", "envVars": {"A=": "x"}}`: 400,
		`{"templateID": "base", "metadata": {"": "x"}}`: 400, `{"templateID": "base", "metadata": {"x": "` + strings.Repeat("x", 300) + `"}}`: 400, `[`: 400, ``: 400,
	} {
		status, text := c.text(&request{Do: "POST /v2/sandboxes", Head: key, Body: message})
		var e struct {
			Code    int
			Message string
		}
		if json.Unmarshal([]byte(text), &e); status != want || e.Code != want || e.Message == "" {
			t.Errorf("%s: %d %s", message, status, text)
		}
	}
	for range 5 {
		delete(c.values, "{id}")
		c.open()
	}
	if status, text := c.text(&request{Do: "POST /sandboxes", Head: key, Body: `{"templateID": "base"}`}); status != 429 {
		t.Error(status, text)
	}
	for do, want := range map[string]int{
		"POST /sandboxes/{id}/pause": 501, "GET /sandboxes/{id}/logs": 501, "POST /sandboxes/{id}/snapshots": 400, "POST /sandboxes/{id}/fork": 400, "PUT /sandboxes/{id}/network": 400,
		"GET /snapshots?limit=0": 400, "DELETE /templates/base": 404, "DELETE /templates/base/nosuch": 404, "GET /templates/aliases/nosuch": 404,
		"GET /templates": 501, "POST /v3/templates": 501, "GET /volumes": 501, "GET /nothing": 404, "POST /process.Process/None": 404, "PUT /files": 404,
		"GET /v2/sandboxes?limit=0": 400, "GET /v2/sandboxes?limit=x": 400, "GET /v2/sandboxes?metadata=%25zz": 400, "GET /v2/sandboxes?startedAfter=x": 400,
	} {
		if status, text := c.text(&request{Do: do, Head: key}); status != want || !strings.Contains(text, `"message":"`) {
			t.Errorf("%s: %d %s", do, status, text)
		}
	}
}

func TestMalformedEnvelopes(t *testing.T) {
	c := newServer(t)
	c.open()
	good := envelope(0, `{"process": {"cmd": "echo out; echo err >&2"}}`)
	for what, body := range map[string]string{
		"nothing": "", "a part of a head": "\x00\x00", "a head alone": good[:5], "cut": good[:20], "two": good + good, "more": good + "x", "the end": envelope(2, "{}"),
		"compressed": envelope(1, "{}"), "unknown flags": envelope(0x80, "{}"), "4 GiB": "\x00\xff\xff\xff\xff{}", "too much": "\x00\x01\x00\x00\x01" + strings.Repeat("x", 100),
		"no JSON": envelope(0, "{"), "a list": envelope(0, "[]"), "deep": envelope(0, strings.Repeat(`{"process":`, 20_000)),
	} {
		answer := c.send(&request{Do: "POST /process.Process/Start", Head: head(typeStream), Body: body})
		got := envelopes(t, answer.Body)
		if answer.StatusCode != 200 || len(got) != 1 || !strings.HasPrefix(got[0], `2 {"error":{"code":"`) {
			t.Errorf("%s: %s %q", what, answer.Status, got)
		}
	}
	for what, body := range map[string]string{
		"nothing": "", "no start": envelope(0, `{"data": {"input": {"stdin": "eA=="}}}`), "no such": envelope(0, `{"start": {"process": {"pid": 99}}}`), "cut": envelope(0, `{}`)[:6], "an end": envelope(2, "{}"),
	} {
		answer := c.send(&request{Do: "POST /process.Process/StreamInput", Head: head(typeStream), Body: body})
		if got := envelopes(t, answer.Body); len(got) != 1 || !strings.HasPrefix(got[0], `2 {"error":{"code":"`) {
			t.Errorf("%s: %q", what, got)
		}
	}
	for what, r := range map[string]*request{
		"protobuf":             {Do: "POST /process.Process/Start", Head: head("application/connect+proto"), Body: good},
		"gRPC":                 {Do: "POST /process.Process/Start", Head: head("application/grpc"), Body: good},
		"a unary call's":       {Do: "POST /process.Process/Start", Head: head(typeUnary), Body: "{}"},
		"unary protobuf":       {Do: "POST /process.Process/List", Head: head("application/proto"), Body: ""},
		"a stream's":           {Do: "POST /process.Process/List", Head: head(typeStream), Body: "{}"},
		"input":                {Do: "POST /process.Process/StreamInput", Head: head("text/plain"), Body: ""},
		"no type of a file":    {Do: "POST /files?path=x", Head: head(""), Body: "x"},
		"a file that is zstd'": {Do: "POST /files?path=x", Head: head("application/octet-stream", "Content-Encoding", "zstd"), Body: "x"},
	} {
		if status, text := c.text(r); status != 415 || !strings.Contains(text, `"code":415`) {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	for what, r := range map[string]*request{
		"a version":   {Do: "POST /process.Process/List", Head: head(typeUnary, "Connect-Protocol-Version", "2"), Body: "{}"},
		"a time":      {Do: "POST /process.Process/List", Head: head(typeUnary, "Connect-Timeout-Ms", "-1"), Body: "{}"},
		"a long time": {Do: "POST /process.Process/List", Head: head(typeUnary, "Connect-Timeout-Ms", "99999999999999999999"), Body: "{}"},
		"a number":    {Do: "POST /process.Process/SendInput", Head: head(typeUnary), Body: `{"process": {"pid": -1}}`},
		"a signal":    {Do: "POST /process.Process/SendSignal", Head: head(typeUnary), Body: `{"process": {"pid": 1}, "signal": "SIGNAL_SIGSTOP"}`},
		"too large":   {Do: "POST /process.Process/List", Head: head(typeUnary), Body: `{"x": "` + strings.Repeat("x", maxMessage) + `"}`},
	} {
		if status, text := c.text(r); status != 400 && status != 429 || !strings.Contains(text, `"code":"`) {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	if status, text := c.text(&request{Do: "POST /process.Process/List", Head: head(typeUnary, "Authorization", "Basic cm9vdDo="), Body: "{}"}); status != 401 || !strings.Contains(text, "unauthenticated") {
		t.Errorf("as root: %d %s", status, text)
	}
}

func TestHostilePaths(t *testing.T) {
	c := newServer(t)
	c.open()
	for _, name := range []string{"../../../../etc/passwd", "a%00b", "", strings.Repeat("a/", 5000)} {
		if status, text := c.text(&request{Do: "GET /files?path=" + name, Head: head("")}); status < 400 || status >= 500 {
			t.Errorf("%.40q: %d %s", name, status, text)
		}
	}
	if _, err := resolve("~root/x"); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"": Home, "~": Home, "~/x": Home + "/x", "x/../../../..": "/", "/../x": "/x", "~root": Home + "/~root", "..": "/home"} {
		if got, err := resolve(name); err != nil || got != want {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	form := func(disposition, body string) string {
		return "--b\r\nContent-Disposition: " + disposition + "\r\n\r\n" + body + "\r\n--b--\r\n"
	}
	for what, body := range map[string]string{
		"no file": form(`form-data; name="x"; filename="x"`, "x"), "no name": form(`form-data; name="file"`, "x"), "nothing": "--b--\r\n", "cut": "--b\r\nContent-Disposition: form-data",
		"no disposition": form("", "x"), "a NUL byte": form("form-data; name=file; filename*=utf-8''a%00b", "x"),
	} {
		if status, text := c.text(&request{Do: "POST /files", Head: head("multipart/form-data; boundary=b"), Body: body}); status != 400 {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	if status, text := c.text(&request{Do: "POST /files", Head: head("multipart/form-data"), Body: "x"}); status != 400 {
		t.Error(status, text)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, "x")
	w.Close()
	if status, text := c.text(&request{Do: "POST /files?path=x", Head: head("application/octet-stream", "Content-Encoding", "gzip"), B64: b.Bytes()[:b.Len()-6]}); status != 400 {
		t.Errorf("cut: %d %s", status, text)
	}
}

func FuzzReadEnvelope(f *testing.F) {
	f.Add([]byte(envelope(0, "{}") + envelope(2, "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			text, err := readEnvelope(r, io.ReadAll)
			if err != nil {
				return
			}
			if len(text) > len(b) {
				t.Errorf("%d bytes of %d", len(text), len(b))
			}
		}
	})
}

// Every message, to every call that there is: it is an answer of the protocol, whatever is in it.
func FuzzMessages(f *testing.F) {
	s := New(Options{})
	var names []string
	for name := range s.unaries() {
		names = append(names, name)
	}
	for _, message := range []string{
		`{"process":{"pid":1},"input":{"stdin":"eA=="},"pty":{"size":{"cols":1,"rows":1}},"signal":9}`, `{"path":"x","depth":3,"recursive":true}`, `{"source":"a","destination":"b"}`, `{"watcherId":"x"}`,
		`{"process":{"cmd":"x","args":["y"],"envs":{"A":"1"},"cwd":"/"},"tag":"t","stdin":true}`, `{"start":{"process":{"tag":"x"}},"data":{"input":{"pty":""}}}`,
	} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		c := newServer(t)
		c.open()
		for name := range c.server.unaries() {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("POST", "/"+name, strings.NewReader(message))
			for k, v := range head(typeUnary) {
				r.Header.Set(k, c.fill(v))
			}
			c.server.ServeHTTP(w, r)
			var any map[string]json.RawMessage
			if err := json.Unmarshal(w.Body.Bytes(), &any); err != nil || w.Code >= 500 && !strings.Contains(w.Body.String(), `"code":"`) {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
		}
		var in startRequest
		if decode([]byte(message), &in) == nil {
			if e, err := c.server.find(c.values["{id}"]).exec(&in, 0); err == nil && (len(e.Argv) == 0 || e.Argv[0] == "" || strings.ContainsRune(strings.Join(e.Argv, ""), 0)) {
				t.Errorf("%q", e.Argv)
			}
		}
		var stream streamInputRequest
		_ = decode([]byte(message), &stream)
	})
	if len(names) < 13 {
		f.Error(names)
	}
}

// What is large, and how many requests there are at one time, is bounded for each owner.
func TestAnOwnersShare(t *testing.T) {
	c := newServer(t)
	c.open()
	c.large.Store(1)
	body := `{"path": "` + strings.Repeat("x", 2*smallDocument) + `"}`
	slow, send := io.Pipe()
	defer send.Close()
	r, err := http.NewRequest("POST", c.base+"/filesystem.Filesystem/Stat", slow)
	must.Do(t, err)
	for k, v := range head(typeUnary) {
		r.Header.Set(k, c.fill(v))
	}
	go func() {
		if answer, err := http.DefaultTransport.RoundTrip(r); err == nil {
			answer.Body.Close()
		}
	}()
	if _, err := io.WriteString(send, body[:smallDocument+1]); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(5 * time.Second); c.large.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("what is large isn't counted")
		}
	}
	if status, text := c.call("filesystem.Filesystem/Stat", body); status != 429 || !strings.Contains(text, "resource_exhausted") {
		t.Errorf("a second one: %d %s", status, text)
	}
	if got := c.stream("filesystem.Filesystem/WatchDir", body); len(got) != 1 || !strings.Contains(got[0], "resource_exhausted") {
		t.Errorf("in an envelope: %q", got)
	}
	if status, text := c.call("filesystem.Filesystem/Stat", `{"path": "."}`); status != 200 {
		t.Errorf("a small one: %d %s", status, text)
	}
	_, _ = io.WriteString(send, body[smallDocument+1:])
	send.Close()
	for until := time.Now().Add(5 * time.Second); c.large.Load() < 1; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it is never given back")
		}
	}
	c.requests.Store(0)
	for _, do := range []string{"GET /health", "GET /v2/sandboxes"} {
		h := head("")
		h["X-API-Key"] = "{key}"
		if status, text := c.text(&request{Do: do, Head: h}); status != 429 {
			t.Errorf("%s: %d %s", do, status, text)
		}
	}
}
