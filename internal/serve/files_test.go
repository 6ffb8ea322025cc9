package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/must"
)

func TestLinksNamesAndModes(t *testing.T) {
	_, c := newServer(t, nil)
	files := c.open(doc{}) + "/files/tmp/"
	c.want(204, "PUT", files+"d/file?mode=0600", "text", nil)
	var e entryDoc
	c.want(201, "POST", files+"d/link", doc{"type": "link", "target": "file"}, &e)
	if e.Type != "link" || e.Target != "file" || e.LeadsTo != "file" || e.Name != "link" {
		t.Errorf("%+v", e)
	}
	c.want(201, "POST", files+"d/sub", doc{"type": "directory", "mode": "0700"}, &e)
	if e.Type != "directory" || e.Mode != "0700" {
		t.Errorf("%+v", e)
	}
	c.want(201, "POST", files+"d/out", doc{"type": "link", "target": "/no/where"}, nil)
	var all struct{ Entries []entryDoc }
	c.want(200, "GET", files+"d?list", nil, &all)
	kinds := map[string]string{}
	for _, e := range all.Entries {
		kinds[e.Name] = e.Type + " " + e.Target + " " + e.LeadsTo
	}
	if got := fmt.Sprint(kinds); got != "map[file:file   link:link file file out:link /no/where  sub:directory  ]" {
		t.Error(got)
	}
	e = entryDoc{}
	c.want(200, "PATCH", files+"d/link", doc{"mode": "0640", "path": "/tmp/d/moved"}, &e)
	if e.Name != "moved" || e.Type != "link" {
		t.Errorf("%+v", e)
	}
	e = entryDoc{}
	c.want(200, "GET", files+"d/file?stat", nil, &e)
	if e.Mode != "0640" || e.LeadsTo != "" {
		t.Errorf("%+v", e)
	}
	_, packed := c.send("GET", files+"d?tar", nil)
	c.want(204, "PUT", files+"copy?tar", string(packed), nil)
	e = entryDoc{}
	c.want(200, "GET", files+"copy/moved?stat", nil, &e)
	if e.Target != "file" || e.LeadsTo != "file" {
		t.Errorf("%+v", e)
	}
	c.want(200, "GET", files+"copy/sub?stat", nil, &e)
	if e.Mode != "0700" {
		t.Errorf("%+v", e)
	}
	c.want(204, "DELETE", files+"copy/out?recursive", nil, nil)
	for what, body := range map[string]doc{
		"nothing": {}, "a file": {"type": "file"}, "a link to nothing": {"type": "link"}, "a directory's target": {"type": "directory", "target": "x"},
		"a field": {"type": "directory", "x": 1}, "a mode": {"type": "directory", "mode": "4755"},
	} {
		if answer, text := c.send("POST", files+"x", body); answer.StatusCode != 422 && answer.StatusCode != 400 {
			t.Errorf("%s: %s %s", what, answer.Status, text)
		}
	}
	c.refused(409, codeFile, "POST", files+"d/file", doc{"type": "link", "target": "x"})
	c.refused(400, codeBadRequest, "PATCH", files+"d/file", doc{"mode": "04755"})
	c.refused(422, codeBadRequest, "PATCH", files+"d/file", doc{"path": "relative"})
	c.refused(404, codeFile, "PATCH", files+"none", doc{"path": "/tmp/x"})
}

// watching follows a watch; next gives its next event that is no keepalive.
func watching(t *testing.T, c *client, path string) (next func() backend.FileEvent, leave func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	r, _ := http.NewRequestWithContext(ctx, "GET", c.base+path, nil)
	answer, err := c.Do(r)
	if err != nil || answer.StatusCode != 200 || answer.Header.Get("Content-Type") != ndjson {
		t.Fatal(answer, err)
	}
	t.Cleanup(func() { answer.Body.Close(); cancel() })
	lines := bufio.NewScanner(answer.Body)
	return func() (e backend.FileEvent) {
		t.Helper()
		for lines.Scan() {
			must.Do(t, json.Unmarshal(lines.Bytes(), &e))
			if e.Op != watchKeepalive {
				return e
			}
		}
		t.Fatal("it was cut: ", lines.Err())
		return e
	}, cancel
}

func TestWatch(t *testing.T) {
	_, c := newServer(t, nil)
	box := c.open(doc{})
	files := box + "/files/tmp/"
	c.want(204, "PUT", files+"d/sub?dir", nil, nil)
	flat, _ := watching(t, c, files+"d?watch")
	deep, _ := watching(t, c, files+"d?watch&deep=1")
	_, leave := watching(t, c, files+"d?watch&deep=0")
	leave()
	c.want(204, "PUT", files+"d/sub/f", "x", nil)
	for _, want := range []string{"create sub/f", "write sub/f"} {
		if e := deep(); string(e.Op)+" "+e.Name != want {
			t.Errorf("%v, want %s", e, want)
		}
	}
	c.want(204, "PUT", files+"d/g", "", nil)
	if e := flat(); e != (backend.FileEvent{Op: backend.FileCreated, Name: "g"}) {
		t.Errorf("%v", e)
	}
	c.want(204, "DELETE", files+"d?recursive", nil, nil)
	for _, next := range []func() backend.FileEvent{flat, deep} {
		for e := next(); e.Op != watchEnd; e = next() {
		}
	}
	c.refused(404, codeFile, "GET", files+"d?watch", nil)
	tmp, _ := watching(t, c, box+"/files/tmp?watch")
	c.want(200, "DELETE", box, nil, nil)
	if e := tmp(); e.Op != watchEnd {
		t.Errorf("%v", e)
	}
}
