package serve

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
)

// Ten thousand clients that are slow, leave in the middle, or send what they like. What comes back is a document, a problem or
// nothing, and of all of them no goroutine, no descriptor and little memory is left.
func TestHostileClientsLeaveNothing(t *testing.T) {
	_, c := newServer(t, nil)
	path := ""
	dial := c.Transport.(*http.Transport).DialContext
	connect := func() net.Conn {
		conn, err := dial(t.Context(), "", path)
		must.Do(t, err)
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		return conn
	}
	box := c.open(doc{})
	process := c.want(201, "POST", box+"/exec", doc{"argv": []string{"sleep"}, "detach": true, "open_stdin": true}, nil).Header.Get("Location")
	const head = " HTTP/1.1\r\nHost: c\r\n"
	hear := func(c net.Conn) { hear(t, c) }
	attempts := map[string]func(conn net.Conn){
		"nothing":               func(net.Conn) {},
		"half a line":           func(c net.Conn) { fmt.Fprint(c, "GET /v1/sand") },
		"junk":                  func(c net.Conn) { fmt.Fprint(c, "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"); hear(c) },
		"a path that leads out": func(c net.Conn) { fmt.Fprint(c, "GET /v1/../../etc/passwd"+head+"\r\n"); hear(c) },
		"a long path":           func(c net.Conn) { fmt.Fprint(c, "GET /"+strings.Repeat("x", 5000)+head+"\r\n"); hear(c) },
		"a large head": func(c net.Conn) {
			fmt.Fprint(c, "GET /v1/version"+head+"X: "+strings.Repeat("x", 100<<10)+"\r\n\r\n")
			hear(c)
		},
		"a length that is not there": func(c net.Conn) { fmt.Fprint(c, "POST "+box+"/exec"+head+"Content-Length: 100\r\n\r\n{\"argv\"") },
		"two lengths": func(c net.Conn) {
			fmt.Fprint(c, "POST "+box+"/exec"+head+"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}")
			hear(c)
		},
		"chunks that are none": func(c net.Conn) {
			fmt.Fprint(c, "POST "+box+"/exec"+head+"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
			hear(c)
		},
		"deep nesting":               func(c net.Conn) { post(c, box+"/exec", strings.Repeat(`{"env":`, 10000)); hear(c) },
		"a stream that nobody reads": func(c net.Conn) { post(c, box+"/exec", `{"argv":["flood"]}`, "Accept: "+ndjson) },
		"a stream that is left": func(c net.Conn) {
			fmt.Fprint(c, "GET "+process+"/output?follow=1"+head+"\r\n")
			_, _ = bufio.NewReader(c).ReadString('\n')
		},
		"half closed, then it reads": func(c net.Conn) {
			fmt.Fprint(c, "GET /v1/version"+head+"\r\n")
			_ = c.(*net.UnixConn).CloseWrite()
			hear(c)
		},
		"input, and it leaves": func(c net.Conn) {
			fmt.Fprint(c, "POST "+process+"/stdin"+head+"Content-Length: 1000000\r\n\r\n"+strings.Repeat("x", 100000))
		},
		"a file, and it leaves":      func(c net.Conn) { fmt.Fprint(c, "PUT "+box+"/files/tmp/f"+head+"Content-Length: 1000000\r\n\r\nxx") },
		"requests behind each other": func(c net.Conn) { fmt.Fprint(c, strings.Repeat("GET /v1/version"+head+"\r\n", 50)); hear(c) },
		"an upgrade to something": func(c net.Conn) {
			fmt.Fprint(c, "GET "+process+"/tty"+head+"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			hear(c)
		},
		"a method that there is not": func(c net.Conn) { fmt.Fprint(c, "BREW "+box+head+"\r\n"); hear(c) },
		"a proxy's request":          func(c net.Conn) { fmt.Fprint(c, "CONNECT evil.test:443"+head+"\r\n"); hear(c) },
		"an absolute URL":            func(c net.Conn) { fmt.Fprint(c, "GET http://evil.test/v1/sandboxes"+head+"\r\n"); hear(c) },
		"a sandbox, and it leaves":   func(c net.Conn) { post(c, "/v1/runs", `{"argv":["sleep"]}`) },
		"a keep-alive that is closed": func(c net.Conn) {
			fmt.Fprint(c, "GET /v1/version"+head+"\r\n")
			_, _ = bufio.NewReader(c).ReadString('\n')
		},
	}
	names := slices.Collect(maps.Keys(attempts))
	before := census()
	var group sync.WaitGroup
	const clients, each = 50, 200
	for range clients {
		group.Go(func() {
			for range each {
				conn := connect()
				attempts[names[rand.IntN(len(names))]](conn)
				_ = conn.Close()
			}
		})
	}
	group.Wait()
	c.want(200, "GET", "/v1/version", nil, nil)
	c.CloseIdleConnections()
	deadline := time.Now().Add(8 * time.Second)
	for {
		now := census()
		if now.goroutines <= before.goroutines+2 && now.files <= before.files+1 {
			break
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("before: %+v, after: %+v\n%s", before, now, stacks[:runtime.Stack(stacks, true)])
		}
		time.Sleep(50 * time.Millisecond)
	}
	if now := census(); now.heap > before.heap+64<<20 {
		t.Errorf("%d MiB more are kept", (now.heap-before.heap)>>20)
	}
}

func post(c net.Conn, path, body string, more ...string) {
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: c\r\n%sContent-Length: %d\r\n\r\n%s", path, strings.Join(append(more, ""), "\r\n"), len(body), body)
}

// hear reads an answer, if one comes. One that is an error has to be a problem.
func hear(t *testing.T, c net.Conn) {
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return
	}
	text, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if r.StatusCode < 400 {
		return
	}
	var p problem
	if err := json.Unmarshal(text, &p); err != nil || r.Header.Get("Content-Type") != problemType || p.Status != r.StatusCode || p.Code == "" || p.Detail == "" {
		t.Errorf("%s: %q: %s", r.Status, r.Header.Get("Content-Type"), text)
	}
}

type counted struct {
	goroutines, files int
	heap              uint64
}

func census() (n counted) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	n.goroutines, n.heap = runtime.NumGoroutine(), m.HeapAlloc
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		n.files = len(fds)
	}
	return n
}

func TestARunEndsWhenItsClientLeaves(t *testing.T) {
	s, c := newServer(t, nil)
	conn, err := c.Transport.(*http.Transport).DialContext(t.Context(), "", "")
	must.Do(t, err)
	post(conn, "/v1/runs", `{"argv":["sleep"]}`)
	owner := OwnerOf(os.Geteuid())
	for len(s.Manager.List(owner)) == 0 {
		time.Sleep(time.Millisecond)
	}
	b := s.Manager.List(owner)[0]
	conn.Close()
	<-b.Done()
}

func FuzzRequests(f *testing.F) {
	for _, seed := range []string{`{"argv":["echo"]}`, `{"policy":{"memory_limit":1}}`, `{"stdin":{"b64":"AA=="}}`, `{"tty":{"rows":1}}`, `{"lifetime":"1s","labels":{"a":"b"}}`} {
		f.Add(seed)
	}
	s := &Server{}
	f.Fuzz(func(t *testing.T, body string) {
		for _, v := range []any{&createDoc{}, &execDoc{}, &runDoc{}, &changeDoc{}, &sizeDoc{}} {
			r, err := http.NewRequest("POST", "/", strings.NewReader(body))
			if err != nil {
				t.Skip()
			}
			c := &call{Request: r, w: httptest.NewRecorder(), control: http.NewResponseController(httptest.NewRecorder())}
			if c.read(v) != nil {
				continue
			}
			switch d := v.(type) {
			case *createDoc:
				_, _ = s.request(d)
			case *execDoc:
				_, _ = d.exec()
			}
		}
	})
}
