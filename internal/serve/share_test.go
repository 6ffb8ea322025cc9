package serve

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/confine/confinetest"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/places"
	"github.com/confine-run/confine/internal/sandboxes"
)

// One owner's keys are not forgotten for another's, and take so much at most.
func TestEachOwnerHasKeysOfItsOwn(t *testing.T) {
	var k keys
	digest := sha256.Sum256(nil)
	answer := func(owner sandboxes.Owner, word string, size int) bool {
		t.Helper()
		a, mine, err := k.claim(owner, keyOf{"/", word}, digest)
		must.Do(t, err)
		if !mine {
			return false
		}
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		c := &call{Request: r, w: httptest.NewRecorder(), owner: owner}
		if err := k.make(keyOf{"/", word}, a, c, nil, func(c *call) error {
			c.w.WriteHeader(http.StatusCreated)
			_, _ = c.w.Write(make([]byte, size))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return true
	}
	answer("a", "pay", 1)
	for i := range 2 * maxKeys {
		answer("b", fmt.Sprint(i), 100<<10)
	}
	if answer("a", "pay", 1) {
		t.Error("what one owner sent was done again for another's requests")
	}
	if own := k.all["b"]; own.bytes > maxKeptAll+maxKept || len(own.all) > maxKeys || len(own.order) > maxKeys {
		t.Errorf("%d bytes in %d answers are kept", own.bytes, len(own.all))
	}
	if !answer("b", "0", 1) {
		t.Error("nothing was forgotten")
	}
	for i := range maxKeys {
		if _, _, err := k.claim("c", keyOf{"/", fmt.Sprint(i)}, digest); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := k.claim("c", keyOf{"/", "more"}, digest); err == nil {
		t.Error("any number of requests is under way")
	}
}

func TestLargeDocumentsOfOneOwnerAreFew(t *testing.T) {
	var b bodies
	request := func(owner sandboxes.Owner, size int64) (*call, error) {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.ContentLength = size
		c := &call{Request: r, owner: owner}
		return c, b.take(c)
	}
	var all []*call
	for range maxBodies / maxBody {
		c, err := request("a", -1)
		must.Do(t, err)
		all = append(all, c)
	}
	if _, err := request("a", smallBody+1); err == nil {
		t.Error("one owner takes as much as it likes")
	}
	if _, err := request("a", smallBody); err != nil {
		t.Errorf("a small one: %v", err)
	}
	if _, err := request("b", maxBody); err != nil {
		t.Errorf("another owner: %v", err)
	}
	all[0].done[0]()
	if _, err := request("a", maxBody); err != nil {
		t.Errorf("after one has gone: %v", err)
	}
}

// A body that nobody reads, and that never comes, holds neither the answer nor the connection.
func TestABodyThatIsNotReadIsNotWaitedFor(t *testing.T) {
	_, c := newServer(t, nil)
	var group sync.WaitGroup
	defer group.Wait()
	for _, ask := range []string{
		"POST /v1/nothing HTTP/1.1\r\nHost: c\r\nContent-Length: 60\r\n\r\n{",
		"POST /v1/nothing HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"GET /v1/healthz HTTP/1.1\r\nHost: c\r\nContent-Length: 60\r\n\r\n{",
		"POST /v1/runs HTTP/1.1\r\nHost: c\r\nContent-Length: 60\r\n\r\n]",
	} {
		conn, err := c.Transport.(*http.Transport).DialContext(t.Context(), "", "")
		must.Do(t, err)
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second)) // less than the time that a body may take
		if _, err := io.WriteString(conn, ask); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			defer conn.Close()
			all, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 ") {
				t.Errorf("%q: %v, %q", ask, err, all)
			}
		})
	}
}

// Of two that say who asks, somebody in between may have looked at the other.
func TestHeadersThatSayWhoAsksAreThereOnce(t *testing.T) {
	_, c := newServer(t, nil)
	for _, name := range single {
		r, err := http.NewRequestWithContext(t.Context(), "GET", c.base+"/v1/version", nil)
		must.Do(t, err)
		r.Header[http.CanonicalHeaderKey(name)] = []string{"a", "b"}
		answer, err := c.Do(r)
		must.Do(t, err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", name, answer.Status)
		}
	}
}

// Who asks in the moment in which a sandbox ends is told why it does.
func TestASandboxThatIsEndingSaysWhy(t *testing.T) {
	s, c := newServer(t, nil)
	_, id, _ := strings.Cut(c.open(doc{}), "/v1/sandboxes/")
	b, err := s.Manager.Get(OwnerOf(os.Getuid()), id)
	must.Do(t, err)
	asks := &call{Request: httptest.NewRequest(http.MethodPost, "/", nil), box: b}
	go b.Close("memory_limit", "too much memory")
	var p *problem
	if err := asks.ended(backend.ErrClosed); !errors.As(err, &p) || p.Code != codeEnded || !strings.HasSuffix(p.Detail, ": too much memory") {
		t.Error(err)
	}
	if err := asks.ended(io.EOF); err != io.EOF {
		t.Error(err)
	}
}

// Where there is no room, a request waits for its turn, and is told when to come again.
func TestAServerWithoutRoomSaysWhenToComeAgain(t *testing.T) {
	mock := &confinetest.Backend{}
	full := sandboxes.Options{Backend: func(*config.Policy) backend.Backend { return mock }, Max: 1, Wait: 20 * time.Millisecond}
	_, c := newServer(t, func(s *Server) { s.Manager = sandboxes.New(full) })
	box := c.open(doc{})
	answer, text := c.send("POST", "/v1/sandboxes", doc{})
	var p problem
	must.Do(t, json.Unmarshal(text, &p))
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") != "5" || p.Code != codeOverloaded || p.Retry != 5 {
		t.Errorf("%s, %q: %s", answer.Status, answer.Header.Get("Retry-After"), text)
	}
	c.refused(429, codeQuota, "POST", box+"/fork", nil) // which waits for nobody
	full.Wait = time.Minute
	_, c = newServer(t, func(s *Server) { s.Manager = sandboxes.New(full) })
	box = c.open(doc{})
	got := make(chan int)
	go func() {
		answer, _ := c.send("POST", "/v1/sandboxes", doc{})
		got <- answer.StatusCode
	}()
	for waits := ""; !strings.Contains(waits, "\nconfine_waiting 1\n"); {
		_, text := c.send("GET", "/v1/metrics", nil)
		waits = string(text)
	}
	c.want(200, "DELETE", box, nil, nil)
	if code := <-got; code != 201 {
		t.Error(code)
	}
}

// Who is told by a server that ends is told that, and to come again.
func TestAServerThatEndsSaysSo(t *testing.T) {
	s, c := newServer(t, nil)
	s.Manager.Close()
	answer, text := c.send("POST", "/v1/sandboxes", doc{})
	var p problem
	must.Do(t, json.Unmarshal(text, &p))
	if answer.StatusCode != http.StatusServiceUnavailable || p.Code != codeEnded || answer.Header.Get("Retry-After") == "" {
		t.Errorf("%s: %s", answer.Status, text)
	}
}

// A server has no more sandboxes than descriptors for them, and those that are parked have theirs.
func TestRoomForSandboxes(t *testing.T) {
	all := places.ByDescriptors()
	for _, c := range []struct {
		most int
		pool string
		want int
	}{{1, "", 1}, {all + 1, "", all}, {0, "", all}, {all, "standard=0:1", all - 2}, {1, "standard", 1}} {
		var words []string
		if c.pool != "" {
			words = []string{c.pool}
		}
		if n, err := roomFor(c.most, words, io.Discard); err != nil || n != c.want {
			t.Errorf("%d, %q: %d, and not %d: %v", c.most, c.pool, n, c.want, err)
		}
	}
	if _, err := roomFor(1, []string{fmt.Sprintf("standard=0:%d", all)}, io.Discard); !errors.As(err, new(*config.UsageError)) {
		t.Errorf("more are parked than there is room for: %v", err)
	}
}
