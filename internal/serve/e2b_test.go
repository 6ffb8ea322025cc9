package serve

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
)

// overTCP is a server with E2B's API on a TCP port, and what sends requests there.
func overTCP(t *testing.T, change func(*Server)) func(method, path, body string, head map[string]string) (int, string) {
	t.Helper()
	tokens, err := ParseTokens(strings.Repeat("a", 32) + "\n" + strings.Repeat("b", 32))
	must.Do(t, err)
	s, _ := newServer(t, nil)
	other := &Server{Manager: s.Manager, Sources: s.Sources, Tokens: tokens, E2B: true, Version: "test"}
	if change != nil {
		change(other)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- other.Serve(ctx, l) }()
	t.Cleanup(func() { cancel(); <-done })
	return func(method, path, body string, head map[string]string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(method, "http://"+l.Addr().String()+path, strings.NewReader(body))
		must.Do(t, err)
		for k, v := range head {
			if r.Header.Set(k, v); k == "Host" {
				r.Host = v
			}
		}
		answer, err := http.DefaultTransport.RoundTrip(r)
		must.Do(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
		}
		return answer.StatusCode, string(text)
	}
}

func TestE2BHasTheServersOwnersAndPolicies(t *testing.T) {
	send := overTCP(t, func(s *Server) {
		ceiling, err := config.Profile("standard")
		must.Do(t, err)
		s.Ceiling, s.Profile = &ceiling, "standard"
	})
	a, b := map[string]string{"X-API-Key": strings.Repeat("a", 32)}, map[string]string{"Authorization": "Bearer " + strings.Repeat("b", 32)}
	create := func(body string, head map[string]string) (status int, id, token string) {
		t.Helper()
		status, text := send("POST", "/v2/sandboxes", body, head)
		var d struct{ SandboxID, EnvdAccessToken string }
		_ = json.Unmarshal([]byte(text), &d)
		if status == 201 && (d.SandboxID == "" || d.EnvdAccessToken == "") {
			t.Error(text)
		}
		return status, d.SandboxID, d.EnvdAccessToken
	}
	status, id, token := create(`{"templateID": "base", "metadata": {"k": "v"}}`, a)
	if status != 201 {
		t.Fatal(status)
	}
	for body, want := range map[string]int{
		`{"templateID": "strict"}`: 201, `{"templateID": "permissive"}`: 403, `{"templateID": "../x"}`: 404, `{"templateID": "base", "allow_internet_access": true}`: 400,
		`{"templateID": "base", "allow_internet_access": false}`: 201,
	} {
		if status, _, _ := create(body, a); status != want {
			t.Errorf("%s: %d", body, status)
		}
	}
	for what, head := range map[string]map[string]string{
		"no key": {}, "a wrong one": {"X-API-Key": "e2b_" + strings.Repeat("0", 40)}, "one that is empty": {"X-API-Key": ""}, "a sandbox's token": {"X-API-Key": token},
	} {
		if status, text := send("GET", "/v2/sandboxes", "", head); status != 401 || !strings.Contains(text, `"code":401`) {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	if _, text := send("GET", "/v2/sandboxes", "", b); strings.TrimSpace(text) != "[]" {
		t.Errorf("another's: %s", text)
	}
	if status, text := send("GET", "/v1/sandboxes/"+id, "", map[string]string{"Authorization": "Bearer " + strings.Repeat("a", 32)}); status != 200 || !strings.Contains(text, `"labels":{"k":"v"}`) {
		t.Errorf("by the other API: %d %s", status, text)
	}
	inside := map[string]string{"E2b-Sandbox-Id": id, "X-Access-Token": token}
	if status, text := send("GET", "/health", "", inside); status != 204 {
		t.Error(status, text)
	}
	if status, _ := send("GET", "/v1/sandboxes/"+id, "", inside); status != 401 {
		t.Errorf("a sandbox's token is no owner's: %d", status)
	}
	for what, head := range map[string]map[string]string{"a page": {"Origin": "http://localhost"}, "a page's site": {"Sec-Fetch-Site": "cross-site"}, "another name": {"Host": "49983-" + id + ".evil.example"}} {
		maps.Copy(head, inside)
		head["X-API-Key"] = strings.Repeat("a", 32)
		for _, path := range []string{"/health", "/v2/sandboxes"} {
			if status, text := send("GET", path, "", head); status != 403 || !strings.Contains(text, `"code":403`) {
				t.Errorf("%s: %s: %d %s", what, path, status, text)
			}
		}
	}
	a["Idempotency-Key"] = "one"
	_, first, _ := create(`{"templateID": "base"}`, a)
	_, again, _ := create(`{"templateID": "base"}`, a)
	if first == "" || first != again {
		t.Errorf("%q, %q", first, again)
	}
	if status, text := send("POST", "/v2/sandboxes", `{"templateID": "strict"}`, a); status < 400 || !strings.Contains(text, `"message":"`) {
		t.Errorf("the same key for something else: %d %s", status, text)
	}
}

func TestAPIsAreAskedFor(t *testing.T) {
	key := map[string]string{"X-API-Key": strings.Repeat("a", 32), "Authorization": "Bearer " + strings.Repeat("a", 32)}
	for what, c := range map[string]struct {
		change   func(*Server)
		own, e2b int
	}{
		"confine": {func(s *Server) { s.E2B = false }, 200, 404},
		"e2b":     {func(s *Server) { s.Alone = true }, 404, 200},
		"both":    {nil, 200, 200},
	} {
		send := overTCP(t, c.change)
		if status, _ := send("GET", "/v1/sandboxes", "", key); status != c.own {
			t.Errorf("%s: confine's: %d", what, status)
		}
		if status, _ := send("GET", "/v2/sandboxes", "", key); status != c.e2b {
			t.Errorf("%s: E2B's: %d", what, status)
		}
		if status, _ := send("GET", "/v1/healthz", "", nil); status != 200 {
			t.Errorf("%s: health: %d", what, status)
		}
	}
	for word, want := range map[string][2]bool{"confine": {true, false}, "e2b": {false, true}, "e2b,confine": {true, true}} {
		if own, other, err := apis(word); own != want[0] || other != want[1] || err != nil {
			t.Errorf("%s: %v %v %v", word, own, other, err)
		}
	}
	for _, word := range []string{"", "x", "confine,", "e2b,,confine"} {
		if _, _, err := apis(word); err == nil {
			t.Errorf("%q is taken", word)
		}
	}
}
