package serve

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/confine/confinetest"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/sandboxes/sandboxestest"
	"github.com/confine-run/confine/internal/snapshot"
	"github.com/confine-run/confine/internal/sockets"
)

// keeping has a server keep snapshots, of the mock.
func keeping(mock *confinetest.Backend, change func(*sandboxes.Options)) func(*Server) {
	mock.Handle = play
	o := sandboxes.Options{Backend: func(*config.Policy) backend.Backend { return mock }, Max: 20,
		Snapshots: "/state", OpenStore: (&sandboxestest.Stores{Mock: mock}).Open}
	if change != nil {
		change(&o)
	}
	return func(s *Server) { s.Manager = sandboxes.New(o) }
}

func (c *client) snapshot(box string, body any) *snapshotDoc {
	c.t.Helper()
	var d snapshotDoc
	c.want(201, "POST", box+"/snapshots", body, &d)
	return &d
}

func (c *client) running() (n int) {
	c.t.Helper()
	var d struct{ Sandboxes []sandboxDoc }
	c.want(200, "GET", "/v1/sandboxes?state=running", nil, &d)
	return len(d.Sandboxes)
}

func TestASnapshotFromItsBeginningToItsEnd(t *testing.T) {
	_, c := newServer(t, keeping(&confinetest.Backend{}, nil))
	box := c.open(doc{})
	c.want(204, "PUT", box+"/files/tmp/a", "before", nil)
	first := c.snapshot(box, doc{"name": "first"})
	if first.Holds != "files" || len(first.Names) != 1 || first.ID == "" {
		t.Errorf("%+v", first)
	}
	c.want(204, "PUT", box+"/files/tmp/a", "after", nil)
	second := c.snapshot(box, nil)
	var all struct{ Snapshots []snapshotDoc }
	c.want(200, "GET", "/v1/snapshots", nil, &all)
	if len(all.Snapshots) != 2 || second.ID == first.ID {
		t.Errorf("%+v", all)
	}
	read := func(box, want string) {
		t.Helper()
		if _, text := c.send("GET", box+"/files/tmp/a", nil); string(text) != want {
			t.Errorf("%s: %q, want %q", box, text, want)
		}
	}
	read(c.open(doc{"from": "first"}), "before")
	read(c.open(doc{"from": second.ID}), "after")
	process := c.want(201, "POST", box+"/exec", doc{"argv": []string{"sleep"}, "detach": true}, nil).Header.Get("Location")
	c.want(200, "POST", box+"/restore", doc{"snapshot": first.ID}, nil)
	read(box, "before")
	if _, text := c.send("GET", process+"/output?follow=1", nil); !strings.Contains(string(text), `"exit"`) {
		t.Errorf("what ran at a restore: %s", text)
	}
	for _, word := range []string{"first", first.ID} {
		answer, text := c.send("GET", "/v1/snapshots/"+word, nil)
		if answer.Header.Get("Content-Type") != "application/x-tar" || string(text) != "bundle of "+first.ID+"\n" || answer.Header.Get("ETag") != `"`+first.ID+`"` {
			t.Errorf("%s: %s %q", word, answer.Status, text)
		}
	}
	if answer, text := c.send("HEAD", "/v1/snapshots/first", nil); answer.StatusCode != 200 || len(text) != 0 {
		t.Errorf("%s %q", answer.Status, text)
	}
	var known snapshotDoc
	if c.want(200, "GET", "/v1/snapshots/first?stat", nil, &known); known.ID != first.ID {
		t.Errorf("%+v", known)
	}
	c.refused(409, codeConflict, "POST", box+"/snapshots", doc{"name": "first"})
	c.refused(422, codePolicy, "POST", box+"/snapshots", doc{"name": "../x"})
	c.refused(400, codeBadRequest, "POST", box+"/snapshots", doc{"nonsense": 1})
	c.want(204, "DELETE", "/v1/snapshots/first", nil, nil)
	for _, method := range []string{"GET", "DELETE"} {
		c.refused(404, codeNotFound, method, "/v1/snapshots/first", nil)
	}
	c.refused(404, codeNotFound, "POST", box+"/restore", doc{"snapshot": first.ID})
	c.refused(404, codeNotFound, "POST", box+"/restore", doc{})
	c.refused(404, codeNotFound, "POST", "/v1/sandboxes", doc{"from": first.ID})
	c.want(200, "DELETE", box, nil, nil)
	c.refused(410, codeEnded, "POST", box+"/snapshots", nil)
	c.refused(410, codeEnded, "POST", box+"/fork", nil)
}

func TestForksHaveTheirQuotaAndALifetimeOfTheirOwn(t *testing.T) {
	mock := &confinetest.Backend{}
	_, c := newServer(t, keeping(mock, func(o *sandboxes.Options) { o.Max = 6 }))
	box := c.open(doc{"lifetime": "none"})
	c.want(204, "PUT", box+"/files/tmp/a", "shared", nil)
	var all struct{ Sandboxes []sandboxDoc }
	c.want(201, "POST", box+"/fork?n=2", doc{"lifetime": "5m", "labels": doc{"k": "v"}}, &all)
	if len(all.Sandboxes) != 2 || all.Sandboxes[0].Deadline == nil || time.Until(*all.Sandboxes[0].Deadline) > 5*time.Minute || all.Sandboxes[1].Labels["k"] != "v" {
		t.Errorf("%+v", all)
	}
	c.want(201, "POST", box+"/fork", doc{"name": "copy"}, nil)
	if _, text := c.send("GET", "/v1/sandboxes/copy/files/tmp/a", nil); string(text) != "shared" {
		t.Errorf("%q", text)
	}
	for _, n := range []string{"3", "257", "1000000000", "18446744073709551615"} {
		c.refused(429, codeQuota, "POST", box+"/fork?n="+n, nil)
	}
	for n, code := range map[string]string{"0": codePolicy, "-1": codeBadRequest, "x": codeBadRequest, "1e3": codeBadRequest, "18446744073709551616": codeBadRequest} {
		answer, text := c.send("POST", box+"/fork?n="+n, nil)
		if answer.StatusCode/100 != 4 || !strings.Contains(string(text), code) {
			t.Errorf("n=%s: %s %s", n, answer.Status, text)
		}
	}
	c.refused(422, codePolicy, "POST", box+"/fork?n=2", doc{"name": "of two"})
	if n := c.running(); n != 4 {
		t.Errorf("%d stand", n)
	}
}

func TestWhatFailsHalfWayLeavesNothing(t *testing.T) {
	mock := &confinetest.Backend{ForkErr: errors.New("no room"), ForksWell: 2, SnapshotErr: errors.New("the disk is full")}
	_, c := newServer(t, keeping(mock, nil))
	box := c.open(doc{})
	c.refused(500, codeInternal, "POST", box+"/fork?n=3", nil)
	c.refused(500, codeInternal, "POST", box+"/snapshots", doc{"name": "half"})
	var all struct{ Snapshots []snapshotDoc }
	c.want(200, "GET", "/v1/snapshots", nil, &all)
	if n := c.running(); n != 1 || len(all.Snapshots) != 0 {
		t.Errorf("%d stand, %+v", n, all)
	}
}

func TestWhatASandboxHasThatNoSnapshotHoldsIsNoFaultOfTheServer(t *testing.T) {
	for _, p := range []struct {
		err  error
		code int
		what string
	}{
		{fmt.Errorf("read: %w", &snapshot.UnfitError{Msg: "a name"}), 422, codeSnapshot}, {fmt.Errorf("many: %w", snapshot.ErrLayers), 422, codeSnapshot},
		{fmt.Errorf("%w: timed out", backend.ErrUnstopped), 503, codeBusy},
	} {
		_, c := newServer(t, keeping(&confinetest.Backend{SnapshotErr: p.err}, nil))
		box := c.open(doc{})
		c.refused(p.code, p.what, "POST", box+"/snapshots", nil)
	}
}

func TestAKeyOfIdempotencyMakesOneSnapshotAndOneFork(t *testing.T) {
	_, c := newServer(t, keeping(&confinetest.Backend{}, nil))
	box := c.open(doc{})
	c.head = map[string]string{"Idempotency-Key": "one"}
	first := c.snapshot(box, doc{"name": "n"})
	if again := c.snapshot(box, doc{"name": "n"}); again.ID != first.ID {
		t.Errorf("%s and %s", first.ID, again.ID)
	}
	c.want(201, "POST", box+"/fork?n=2", nil, nil)
	if answer := c.want(201, "POST", box+"/fork?n=2", nil, nil); answer.Header.Get("Idempotent-Replayed") != "true" {
		t.Error("it was not the same answer")
	}
	c.refused(409, codeConflict, "POST", box+"/fork?n=3", nil)
	c.head = nil
	if n := c.running(); n != 3 {
		t.Errorf("%d stand", n)
	}
}

// Two owners, by their tokens.
func TestASnapshotOfSomebodyElseDoesNotExist(t *testing.T) {
	tokens := []string{strings.Repeat("1", 32), strings.Repeat("2", 32)}
	s := &Server{Sources: config.Sources{Dir: t.TempDir(), Home: t.TempDir()}}
	keeping(&confinetest.Backend{}, nil)(s)
	s.Tokens, _ = ParseTokens(strings.Join(tokens, "\n"))
	l, err := sockets.Listen("127.0.0.1:0", false)
	must.Do(t, err)
	serveOn(t, s, l)
	as := func(i int) *client {
		return &client{Client: http.DefaultClient, t: t, base: "http://" + l.Addr().String(), head: map[string]string{"Authorization": "Bearer " + tokens[i]}}
	}
	mine, theirs := as(0), as(1)
	box, other := mine.open(doc{"name": "box"}), theirs.open(doc{})
	made := mine.snapshot(box, doc{"name": "secret"})
	for _, word := range []string{made.ID, "secret"} {
		mine.want(200, "GET", "/v1/snapshots/"+word, nil, nil) // the control
		theirs.refused(404, codeNotFound, "GET", "/v1/snapshots/"+word, nil)
		theirs.refused(404, codeNotFound, "GET", "/v1/snapshots/"+word+"?stat", nil)
		theirs.refused(404, codeNotFound, "DELETE", "/v1/snapshots/"+word, nil)
		theirs.refused(404, codeNotFound, "POST", other+"/restore", doc{"snapshot": word})
		theirs.refused(404, codeNotFound, "POST", "/v1/sandboxes", doc{"from": word})
		if answer, _ := theirs.send("HEAD", "/v1/snapshots/"+word, nil); answer.StatusCode != 404 {
			t.Errorf("HEAD: %s", answer.Status)
		}
	}
	for _, route := range []string{"/fork", "/snapshots", "/restore", "/apply"} {
		theirs.refused(404, codeNotFound, "POST", box+route, doc{})
	}
	theirs.refused(404, codeNotFound, "POST", "/v1/sandboxes/box/fork", nil)
	var all struct{ Snapshots []snapshotDoc }
	if theirs.want(200, "GET", "/v1/snapshots", nil, &all); len(all.Snapshots) != 0 {
		t.Errorf("%+v", all)
	}
	// Nothing tells that the name, or the snapshot, is there.
	theirs.snapshot(other, doc{"name": "secret"})
	theirs.want(201, "PUT", "/v1/snapshots/"+made.ID, "bundle of "+made.ID+"\n", nil)
	mine.want(204, "DELETE", "/v1/snapshots/secret", nil, nil)
	theirs.want(200, "GET", "/v1/snapshots/secret", nil, nil)
}

func TestASnapshotIsOpenedUnderThePolicyOfTheCeiling(t *testing.T) {
	mock := &confinetest.Backend{}
	_, c := newServer(t, func(s *Server) {
		keeping(mock, nil)(s)
		p, err := config.Profile("standard")
		must.Do(t, err)
		s.Ceiling = &p
	})
	box := c.open(doc{"policy": doc{"profile": "standard"}})
	made := c.snapshot(box, nil)
	c.refused(403, codeCeiling, "POST", "/v1/sandboxes", doc{"from": made.ID, "policy": doc{"profile": "development"}})
	c.want(201, "POST", "/v1/sandboxes", doc{"from": made.ID, "policy": doc{"profile": "standard"}}, nil)
}

// An upload that comes too slowly in all, whatever comes in between, is ended.
func TestAnUploadThatDripsIsEnded(t *testing.T) {
	body := &steady{from: strings.NewReader(strings.Repeat("x", 100)), began: time.Now()}
	if _, err := body.Read(make([]byte, 10)); err != nil {
		t.Errorf("at its beginning: %v", err)
	}
	body.began = time.Now().Add(-uploadStart - time.Second)
	var p *problem
	if _, err := body.Read(make([]byte, 10)); !errors.As(err, &p) || p.Status != http.StatusRequestTimeout {
		t.Errorf("10 bytes after a minute: %v", err)
	}
	body.n = 10 * uploadRate
	if _, err := body.Read(make([]byte, 10)); err != nil {
		t.Errorf("at its rate: %v", err)
	}
}

// send sends what it likes, and leaves.
func (c *client) leave(text string) {
	c.t.Helper()
	conn, err := c.Transport.(*http.Transport).DialContext(c.t.Context(), "", "")
	must.Do(c.t, err)
	_, _ = io.WriteString(conn, text)
	if half, ok := conn.(*net.UnixConn); ok {
		_ = half.CloseWrite()
	}
	_ = conn.Close()
}
