package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/confine/confinetest"
	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/status"
)

// overlaid is a backend whose sandboxes have changed a tree as a directory says that stands for the upper one of an overlay.
type overlaid struct {
	*confinetest.Backend
	tree, upper string
	began       time.Time
	cause       error // why nothing can be told
}

type overlaidBox struct {
	backend.Sandbox
	of *overlaid
}

func (o *overlaid) Build(ctx context.Context, p backend.Plan) (backend.Sandbox, error) {
	box, err := o.Backend.Build(ctx, p)
	return overlaidBox{box, o}, err
}

func (b overlaidBox) Changes(_ context.Context, keep string) (*status.Changes, error) {
	o := b.of
	if o.cause != nil {
		return &status.Changes{Trees: []string{o.tree}, Error: o.cause.Error(), Cause: o.cause}, nil
	}
	upper, err := unix.Open(o.upper, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(upper)
	lower, err := unix.Open(o.tree, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(lower)
	tree := changes.Tree{Path: o.tree, Upper: upper, Lower: lower}
	set, err := changes.Read(tree, changes.Limits{})
	if err != nil || len(set.Changes) == 0 {
		return &status.Changes{Trees: []string{o.tree}}, err
	}
	store, err := changes.OpenStore(keep)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	id, _, err := store.Keep(changes.Keeping{Start: o.began, Trees: []changes.Tree{tree}, Sets: []*changes.Set{set}})
	return &status.Changes{RunID: id, Kept: err == nil, Trees: []string{o.tree}, Counts: status.ChangeCounts{Added: len(set.Changes)}}, err
}

func writeTo(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
}

func newOverlaid(t *testing.T, change func(*Server)) (*overlaid, *client, string) {
	t.Helper()
	o := &overlaid{Backend: &confinetest.Backend{Handle: play}, tree: t.TempDir(), upper: t.TempDir()}
	writeTo(t, o.tree, "old", "as it was\n")
	time.Sleep(20 * time.Millisecond)
	o.began = time.Now()
	keep := filepath.Join(t.TempDir(), "changes")
	_, c := newServer(t, func(s *Server) {
		s.Manager = sandboxes.New(sandboxes.Options{Backend: func(*config.Policy) backend.Backend { return o }})
		s.Changes, s.Sources.Dir = keep, o.tree
		if change != nil {
			change(s)
		}
	})
	return o, c, keep
}

func TestChangesAreLookedAtAppliedAndGone(t *testing.T) {
	o, c, keep := newOverlaid(t, nil)
	box := c.open(doc{})
	writeTo(t, o.upper, "new", "one\n")
	writeTo(t, o.upper, "dir/below", "two\n")
	answer, text := c.send("GET", box+"/diff?names&from="+o.tree, nil)
	if answer.StatusCode != 200 || string(text) != "A dir/\nA dir/below\nA new\n" || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("%s %q", answer.Status, text)
	}
	answer, text = c.send("GET", box+"/diff?patch&path="+o.tree+"/new", nil)
	if answer.Header.Get("Content-Type") != "text/x-diff" || !strings.Contains(string(text), "+one\n") || strings.Contains(string(text), "two") {
		t.Errorf("%s %q", answer.Status, text)
	}
	var d struct {
		Version int
		Changes []struct{ Path string }
	}
	if c.want(200, "GET", box+"/diff", nil, &d); d.Version != 1 || len(d.Changes) != 3 {
		t.Errorf("%+v", d)
	}
	var did appliedDoc
	if c.want(200, "POST", box+"/apply", doc{"dry_run": true}, &did); did.Applied != 3 || !did.DryRun {
		t.Errorf("%+v", did)
	}
	if _, err := os.Lstat(o.tree + "/new"); !os.IsNotExist(err) {
		t.Errorf("a dry run made it: %v", err)
	}
	if c.want(200, "POST", box+"/apply", doc{"paths": []string{o.tree + "/new"}}, &did); did.Applied != 1 || did.DryRun {
		t.Errorf("%+v", did)
	}
	if c.want(200, "POST", box+"/apply", nil, &did); did.Applied != 2 {
		t.Errorf("%+v", did)
	}
	if text, err := os.ReadFile(o.tree + "/dir/below"); err != nil || string(text) != "two\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, text := c.send("GET", box+"/diff?names", nil); len(text) != 0 {
		t.Errorf("after apply: %q", text)
	}
	c.refused(404, codeNotFound, "POST", box+"/apply", doc{"paths": []string{o.tree + "/new"}})
	for _, path := range []string{o.tree + "/../x", "new", o.tree + "//new", "", "/" + strings.Repeat("../", 50) + "etc"} {
		c.refused(400, codeBadRequest, "POST", box+"/apply", doc{"paths": []string{path}})
	}
	if entries, err := os.ReadDir(keep); err != nil || len(entries) > 1 { // its lock
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestConflictsAndRefusalsAreListed(t *testing.T) {
	o, c, _ := newOverlaid(t, nil)
	t.Setenv("HOME", o.tree)
	box := c.open(doc{})
	writeTo(t, o.upper, "old", "by the sandbox\n")
	writeTo(t, o.upper, ".bashrc", "echo obeyed\n")
	_, text := c.send("POST", box+"/apply", nil)
	var p problem
	if err := json.Unmarshal(text, &p); err != nil || p.Code != CodeRefused || len(p.Paths) != 1 || p.Paths[0].Path != o.tree+"/.bashrc" || !strings.Contains(p.Hint, "allow_protected") {
		t.Errorf("%s", text)
	}
	writeTo(t, o.tree, "old", "by somebody else\n")
	_, text = c.send("POST", box+"/apply", doc{"paths": []string{o.tree + "/old"}})
	p = problem{}
	if err := json.Unmarshal(text, &p); err != nil || p.Code != CodeChanged || p.Status != 409 || len(p.Paths) != 1 || p.Paths[0].Hard {
		t.Errorf("%s", text)
	}
	c.want(200, "POST", box+"/apply", doc{"force": true, "allow_protected": true}, nil)
	if text, _ := os.ReadFile(o.tree + "/old"); string(text) != "by the sandbox\n" {
		t.Errorf("%q", text)
	}
}

// A server with a ceiling writes nothing outside of sandboxes, whatever the ceiling lets those write.
func TestNothingIsAppliedBelowACeiling(t *testing.T) {
	for _, workdir := range []string{"overlay", "rw"} {
		o, c, _ := newOverlaid(t, func(s *Server) {
			p := config.Default()
			p.Filesystem.Workdir = workdir
			s.Ceiling = &p
		})
		var d sandboxDoc
		c.want(201, "POST", "/v1/sandboxes", doc{"dir": o.tree, "policy": doc{"workdir": "overlay"}}, &d)
		writeTo(t, o.upper, "new", "text\n")
		answer, text := c.send("POST", "/v1/sandboxes/"+d.ID+"/apply", nil)
		_, err := os.Lstat(o.tree + "/new")
		if answer.StatusCode != 403 || err == nil {
			t.Errorf("%s: %s %s, %v", workdir, answer.Status, text, err)
		}
		c.refused(403, codeCeiling, "POST", "/v1/sandboxes/"+d.ID+"/apply", doc{"allow_protected": true})
		c.want(200, "GET", "/v1/sandboxes/"+d.ID+"/diff", nil, nil)
	}
}

// What a sandbox or the caller has made of a tree is no fault of the server.
func TestATreeOfWhichNothingCanBeToldIsAProblem(t *testing.T) {
	o, c, _ := newOverlaid(t, nil)
	box := c.open(doc{})
	o.cause = &changes.TreeError{Path: o.tree, Err: changes.ErrExchanged}
	c.refused(409, CodeTree, "GET", box+"/diff", nil)
	c.refused(409, CodeTree, "POST", box+"/apply", nil)
	o.cause = &changes.TreeError{Path: o.tree, Err: &changes.WallError{Path: "a"}}
	c.refused(422, CodeRefused, "GET", box+"/diff", nil)
}

func TestWithoutAnOverlayThereIsNothingToLookAt(t *testing.T) {
	_, c := newServer(t, func(s *Server) { s.Changes = t.TempDir() })
	box := c.open(doc{})
	c.refused(422, CodeNoOverlay, "GET", box+"/diff", nil)
	c.refused(422, CodeNoOverlay, "POST", box+"/apply", nil)
}

// What a server that was killed in an apply has left is brought to an end by the next one.
func TestWhatAKilledServerKeptIsForgotten(t *testing.T) {
	o, _, keep := newOverlaid(t, nil)
	writeTo(t, o.upper, "new", "text\n")
	c, err := overlaidBox{nil, o}.Changes(t.Context(), keep)
	if err != nil || c.RunID == "" {
		t.Fatal(c, err)
	}
	s := &Server{Changes: keep}
	if notices, err := recoverChanges(s.Changes); err != nil || len(notices) != 0 {
		t.Error(notices, err)
	}
	if _, err := os.Lstat(filepath.Join(keep, c.RunID)); err != nil {
		t.Errorf("of another server, perhaps: %v", err)
	}
	record := filepath.Join(keep, c.RunID, "manifest.json")
	text, err := os.ReadFile(record)
	must.Do(t, err)
	old := regexp.MustCompile(`"time":"[^"]*"`).ReplaceAllString(string(text), `"time":"`+time.Now().Add(-2*keepTime).Format(time.RFC3339Nano)+`"`)
	must.Do(t, os.WriteFile(record, []byte(old), 0o600))
	if _, err := recoverChanges(s.Changes); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(keep, c.RunID)); !os.IsNotExist(err) {
		t.Errorf("kept: %v", err)
	}
}

func TestOneOwnerLooksAtFewChangesAtOnce(t *testing.T) {
	var r reviews
	var all []func()
	for i := range maxReviews {
		done, err := r.begin("me")
		if err != nil {
			t.Fatal(i, err)
		}
		all = append(all, done)
	}
	if _, err := r.begin("me"); !errors.As(err, new(*sandboxes.QuotaError)) {
		t.Error(err)
	}
	done, err := r.begin("you")
	if err != nil {
		t.Error(err)
	}
	done()
	for _, done := range all {
		done()
	}
	if len(r.all) != 0 {
		t.Error(fmt.Sprint(r.all))
	}
}
