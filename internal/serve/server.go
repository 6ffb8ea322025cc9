package serve

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/sockets"
)

// Server is what a server is started with.
type Server struct {
	Manager *sandboxes.Manager
	// Sources are where policies come from, but for what a request says: the server's own files.
	Sources config.Sources
	// Ceiling is what no policy may be wider than; nil: anything.
	Ceiling *config.Policy
	// Profile is that of requests that name none; empty: as in a run.
	Profile string
	// Changes is the directory of what is looked at of sandboxes' changes; empty: nobody looks.
	Changes string
	// Hidden are files that no sandbox shows: the server's socket and its tokens.
	Hidden []string
	// Environ is what policies pass to processes of.
	Environ []string
	// AllowUIDs are users beside the server's own who may connect to a unix socket.
	AllowUIDs []int
	// Tokens give access on TCP.
	Tokens []Token
	// E2B: E2B's API is served, too. Alone: and no other.
	E2B, Alone bool
	// Version is the program's.
	Version string
	// CeilingFiles are those that the ceiling was read from.
	CeilingFiles []string
	// More answers requests to what is below /more/ with a document; nil: there is nothing.
	More func(r *http.Request, owner sandboxes.Owner) (any, error)

	pace  pace
	ports map[string]bool // of TCP
	answers
	reviews reviews
	pools   []*profilePool
	shares
}

// answers are what was given, and how often.
type answers struct {
	keys  keys
	stats stats
}

// shares are what each owner has of the server now.
type shares struct {
	bodies   bodies
	requests share
}

// bodyTime is the most between two reads of a body. Tests have less.
var bodyTime = 30 * time.Second

// Bounds of a request.
const (
	maxBody     = 32 << 20         // of a document
	writeTime   = 60 * time.Second // that a client may take for what it is sent
	keepalive   = 15 * time.Second // of a stream that has nothing to say
	headerTime  = 10 * time.Second
	unreadTime  = time.Second // for what is left of a body that was not read
	idleTime    = 2 * time.Minute
	maxHeader   = 64 << 10
	maxPathName = 4096
)

// portsOf are those at which a server is reached, which is for those alone who have tokens.
func portsOf(listeners []net.Listener, tokens bool) (map[string]bool, error) {
	ports := map[string]bool{}
	for _, l := range listeners {
		if addr, ok := l.Addr().(*net.TCPAddr); ok {
			if !tokens {
				return nil, &config.UsageError{Msg: "a TCP address needs tokens", Hint: "name a file of them: --token-file FILE"}
			}
			_, port, _ := net.SplitHostPort(addr.String())
			ports[port] = true
		}
	}
	return ports, nil
}

// Serve answers on listeners until ctx ends, then ends all sandboxes, and gives up to a second to requests under way.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	s.pace = s.pace.or(usualPace)
	var err error
	if s.ports, err = portsOf(listeners, len(s.Tokens) > 0); err != nil {
		return err
	}
	server := &http.Server{
		Handler: s.handler(), ConnContext: sockets.Context, ConnState: sockets.State, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		ErrorLog: log.New(io.Discard, "", 0), // what clients do wrong is no news
	}
	var group sync.WaitGroup
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		group.Go(func() { failed <- server.Serve(sockets.Bound(l, conns(), plainProblem)) })
	}
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.Manager.Close()
	poolRoutes{s}.close()
	last, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if server.Shutdown(last) != nil {
		_ = server.Close()
	}
	group.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// call is a request whose owner is known.
type call struct {
	*http.Request
	w       http.ResponseWriter
	peer    *sockets.Peer
	owner   sandboxes.Owner
	box     *sandboxes.Sandbox // that it is about, if it stood when it was asked for
	bodies  *bodies            // nil: the document is counted already
	done    []func()
	pace    pace
	control *http.ResponseController
}

// handler finds the route of a request, and who asks.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for path, methods := range s.routes() {
		if s.Alone && path != "/v1/healthz" {
			continue
		}
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, methods) })
	}
	if s.More != nil {
		mux.HandleFunc("/more/", func(w http.ResponseWriter, r *http.Request) {
			s.serve(w, r, map[string]route{http.MethodPost: {do: func(c *call) error {
				doc, err := s.More(c.Request, c.owner)
				if err == nil {
					reply(c.w, http.StatusOK, doc)
				}
				return err
			}}})
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, nil) })
	var other *e2bSide
	if s.E2B {
		other = newE2B(s)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			defer impatient(w)()
		}
		for _, name := range single {
			if len(r.Header.Values(name)) > 1 {
				refuse(w, fail(http.StatusBadRequest, codeBadRequest, "the header "+name+" is there twice"))
				return
			}
		}
		// The mux would lead the client elsewhere by a page of HTML.
		if clean := path.Clean(r.URL.Path); len(r.URL.Path) > maxPathName || r.URL.Path != clean && r.URL.Path != clean+"/" {
			refuse(w, fail(http.StatusBadRequest, codeBadRequest, "the path is too long, or has empty parts or dots"))
			return
		}
		if other != nil && !strings.HasPrefix(r.URL.Path, "/v1/") {
			other.answer(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// endTime is how long a sandbox may take to say why it has ended.
const endTime = 10 * time.Second

// ended says why a sandbox has ended that ended before it was used, where that is the error.
func (c *call) ended(err error) error {
	if c.box == nil || !errors.Is(err, backend.ErrClosed) {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), endTime)
	defer cancel()
	select {
	case <-c.box.Done():
		return ended(c.box.Ended())
	case <-ctx.Done():
		return err
	}
}

// single are headers that say who asks, and for what: somebody in between may look at another of them than the server does.
var single = []string{"Authorization", "X-Api-Key", "X-Access-Token", "E2b-Sandbox-Id"}

// impatient bounds how long package net/http waits for a body that no handler reads: it does before it answers, and again before the
// next request. The time is that of a head, and left is called when the handler has returned.
func impatient(w http.ResponseWriter) (left func()) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(headerTime))
	return func() { _ = control.SetReadDeadline(time.Now().Add(unreadTime)) }
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, methods map[string]route) {
	c := &call{w: w, Request: r, peer: sockets.PeerOf(r), pace: s.pace, control: http.NewResponseController(w)}
	method := r.Method
	if _, ok := methods[method]; !ok && method == http.MethodHead {
		method = http.MethodGet
	}
	route, ok := methods[method]
	var err error
	if !route.open {
		c.owner, err = s.authenticate(r)
	}
	s.stats.count(c.owner, counts{requests: 1})
	switch {
	case err != nil:
	case methods == nil:
		err = fail(http.StatusNotFound, codeNotFound, "there is nothing at this path").hint("GET /v1/openapi.json lists what there is")
	case !ok:
		var names []string
		for name := range methods {
			names = append(names, name)
		}
		slices.Sort(names)
		w.Header().Set("Allow", strings.Join(names, ", "))
		err = fail(http.StatusMethodNotAllowed, codeMethod, r.Method+" is not for this path")
	default:
		done, ok := s.requests.take(c.owner, 1, int64(conns()*3/4))
		if !ok {
			err = fail(http.StatusTooManyRequests, codeQuota, "there are too many requests under way").hint("wait for some of them")
			break
		}
		c.peer.Serve()
		c.bodies, c.done = &s.bodies, []func(){done}
		defer c.over() // of one that is cut off by a panic, too
		err = c.ended(route.do(c))
	}
	if err != nil {
		s.stats.count(c.owner, counts{problems: 1})
		refuse(w, err)
	}
}

// over gives back what the request had.
func (c *call) over() {
	for _, done := range c.done {
		done()
	}
}

// readOr is read, of a body that may be empty.
func (c *call) readOr(v any) error {
	body := bufio.NewReader(c.Body)
	if _, err := body.Peek(1); err == io.EOF {
		return nil
	}
	inner := *c
	request := *c.Request
	inner.Request, request.Body = &request, io.NopCloser(body)
	err := inner.read(v)
	c.done = inner.done
	return err
}

// read reads the body, which is one document with no fields that nobody knows.
func (c *call) read(v any) error {
	if err := c.bodies.take(c); err != nil {
		return err
	}
	d := json.NewDecoder(http.MaxBytesReader(c.w, c.patient(), maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("more than one document")
		}
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = errors.New(cmp.Or(kind.Field, "the document") + " can't be of the kind " + kind.Value)
	}
	if err != nil && !errors.As(err, new(*http.MaxBytesError)) && !errors.As(err, new(*problem)) {
		return fail(http.StatusBadRequest, codeBadRequest, "the body: "+err.Error()).hint("GET /v1/openapi.json describes it")
	}
	return err
}

// patient is the body, which may take as long as it likes.
func (c *call) patient() *sockets.Patient {
	return &sockets.Patient{ReadCloser: c.Body, Control: c.control, Wait: bodyTime, Late: fail(http.StatusRequestTimeout, codeBadRequest, "nothing came for 30 seconds")}
}

// streams says whether the client asks for frames.
func (c *call) streams() bool { return strings.Contains(c.Header.Get("Accept"), ndjson) }

const ndjson = "application/x-ndjson"
