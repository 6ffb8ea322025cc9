package e2b

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/sockets"
)

// Home is where commands start, and relative names of files begin.
const Home = "/home/user"

// What the SDKs take this for: it decides what they ask for. Later versions have metadata of files, which is not to be had here.
const envdVersion = "0.5.7"

// gone is how the SDKs know a sandbox that has ended.
const gone = "The sandbox was not found"

// envdPort is the only one at which there is anything.
const envdPort = "49983"

// Options are what a server is made of.
type Options struct {
	Manager *sandboxes.Manager
	// Admit refuses requests from where none may come, and Owner says whose request it is, by its key.
	Admit func(*http.Request) error
	Owner func(*http.Request) (sandboxes.Owner, error)
	// Template says whether there is one of a name.
	Template func(name string) bool
	// Spec is what a sandbox of a template is to be, with a network by the rules. Its home is [Home].
	Spec func(template string, rules *Rules) (*backend.Spec, error)
	// Request takes one owner's share of the requests that are under way, Large of those with a document of more than 64 KiB, until done
	// is called; not ok: it has enough of them.
	Request, Large func(sandboxes.Owner, *http.Request) (done func(), ok bool)
	// Explain says what an error is to a client.
	Explain func(error) (status int, message string)
	// BodyTime is the most between two reads of a body, WriteTime what a client may take for what it is sent.
	BodyTime, WriteTime time.Duration
}

// Server is the API as a handler.
type Server struct {
	Options
	mux     http.Handler
	key     [32]byte // tokens of sandboxes are made with it
	origins origins

	mu    sync.Mutex
	boxes map[string]*box // those that stand
}

// New makes a server.
func New(o Options) *Server {
	s := &Server{Options: o, boxes: map[string]*box{}}
	_, _ = rand.Read(s.key[:])
	mux := http.NewServeMux()
	for pattern, do := range s.routes() {
		mux.HandleFunc(pattern, do)
	}
	s.mux = mux
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// routes are all that there is, and what is known to E2B's SDKs and isn't there.
func (s *Server) routes() map[string]http.HandlerFunc {
	kept, live := snapshotRoutes{s}, liveRoutes{s}
	routes := map[string]http.HandlerFunc{
		"/":                                 s.owned(func(*call) error { return &failure{http.StatusNotFound, "there is nothing at this path"} }),
		"POST /sandboxes":                   s.owned(s.create),
		"POST /v2/sandboxes":                s.owned(s.create),
		"GET /sandboxes":                    s.owned(s.list),
		"GET /v2/sandboxes":                 s.owned(s.list),
		"GET /sandboxes/{id}":               s.owned(s.show),
		"DELETE /sandboxes/{id}":            s.owned(s.kill),
		"POST /sandboxes/{id}/timeout":      s.owned(s.setTimeout),
		"POST /sandboxes/{id}/refreshes":    s.owned(s.refresh),
		"POST /sandboxes/{id}/connect":      s.owned(s.connect),
		"POST /v2/sandboxes/{id}/connect":   s.owned(s.connect),
		"POST /sandboxes/{id}/fork":         s.owned(kept.fork),
		"POST /sandboxes/{id}/snapshots":    s.owned(kept.take),
		"PUT /sandboxes/{id}/network":       s.owned(live.setNetwork),
		"GET /sandboxes/{id}/metrics":       s.owned(live.metrics),
		"GET /sandboxes/metrics":            s.owned(live.allMetrics),
		"GET /snapshots":                    s.owned(kept.list),
		"DELETE /templates/{template...}":   s.owned(kept.drop),
		"GET /templates/aliases/{alias...}": s.owned(kept.alias),
		"GET /health":                       s.inside(s.health),
		"GET /files":                        s.inside(s.readFile),
		"POST /files":                       s.inside(s.writeFiles),
		"POST /process.Process/StreamInput": s.inside(s.streamInput),
	}
	for _, path := range []string{
		"POST /sandboxes/{id}/pause", "POST /sandboxes/{id}/resume", "GET /sandboxes/{id}/logs", "GET /v2/sandboxes/{id}/logs", "/templates", "/templates/", "/v2/templates",
		"/v3/templates", "/volumes", "/volumes/", "/secrets", "/secrets/",
	} {
		routes[path] = s.owned(func(*call) error {
			return &failure{http.StatusNotImplemented, "confine serve has nothing of this kind"}
		})
	}
	for name, do := range s.unaries() {
		routes["POST /"+name] = s.inside(do)
	}
	for name, do := range s.streams() {
		routes["POST /"+name] = s.inside(do)
	}
	return routes
}

// box is a sandbox that was made here.
type box struct {
	*sandboxes.Sandbox
	template string
	spec     *backend.Spec
	uid      uint32 // of its user, as files have it

	mu       sync.Mutex
	started  map[int]*processConfig // those that run
	watchers map[string]*poll
	measured time.Time // when somebody asked for its metrics, and how much CPU time it had used then
	cpu      time.Duration
}

func newBox(made *sandboxes.Sandbox, template string, spec *backend.Spec) *box {
	return &box{Sandbox: made, template: template, spec: spec, started: map[int]*processConfig{}, watchers: map[string]*poll{}, measured: made.Created}
}

// call is a request whose owner, or whose sandbox, is known.
type call struct {
	*http.Request
	w       http.ResponseWriter
	control *http.ResponseController
	owner   sandboxes.Owner
	box     *box // of what is inside
	server  *Server
	done    []func() // gives back what the request has taken
}

var errTooMany = &failure{http.StatusTooManyRequests, "there are too many requests under way: wait for some of them"}

// serve does what is asked for, within the owner's share.
func (c *call) serve(do func(*call) error) error {
	defer func() {
		for _, done := range c.done {
			done()
		}
	}()
	if err := c.take(c.server.Request); err != nil {
		return err
	}
	return do(c)
}

func (c *call) take(share func(sandboxes.Owner, *http.Request) (func(), bool)) error {
	done, ok := share(c.owner, c.Request)
	if !ok {
		return errTooMany
	}
	c.done = append(c.done, done)
	return nil
}

// smallDocument is the most of one that isn't counted.
const smallDocument = 64 << 10

// document reads all of a document, which may be large if the owner's share allows it.
func (c *call) document(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, smallDocument))
	if err != nil || len(text) < smallDocument {
		return text, err
	}
	if len(c.done) < 2 {
		if err := c.take(c.server.Large); err != nil {
			return nil, err
		}
	}
	rest, err := io.ReadAll(r)
	return append(text, rest...), err
}

// failure is an error of the control API, and of what has no protocol of its own.
type failure struct {
	status  int
	message string
}

func (f *failure) Error() string { return f.message }

// owned is what needs the owner's key.
func (s *Server) owned(do func(*call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{Request: r, w: w, control: http.NewResponseController(w), server: s}
		var err error
		if c.owner, err = s.Owner(r); err == nil {
			err = c.serve(do)
		}
		if err != nil {
			s.Refuse(w, err)
		}
	}
}

// inside is what needs the token of a sandbox. A wrong one says nothing about which sandboxes there are.
func (s *Server) inside(do func(*call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{Request: r, w: w, control: http.NewResponseController(w), server: s}
		err := s.Admit(r)
		id := r.Header.Get("E2b-Sandbox-Id")
		if signed := s.signed(r); err == nil && signed != "" {
			id = signed
		} else if err == nil && (id == "" || !hmac.Equal([]byte(r.Header.Get("X-Access-Token")), []byte(s.token(id)))) {
			err = &failure{http.StatusUnauthorized, "a sandbox and its access token are needed: the headers E2b-Sandbox-Id and X-Access-Token"}
		}
		if port := r.Header.Get("E2b-Sandbox-Port"); err == nil && port != "" && port != envdPort {
			err = &failure{http.StatusBadGateway, "The sandbox is running but port is not open: ports of sandboxes are not served"}
		}
		if err == nil {
			if c.box = s.find(id); c.box == nil {
				err = &failure{http.StatusBadGateway, gone}
			}
		}
		if err == nil {
			c.owner = c.box.Owner
			err = c.serve(do)
		}
		if err != nil {
			s.Refuse(w, err)
		}
	}
}

// token gives access to one sandbox.
func (s *Server) token(id string) string {
	m := hmac.New(sha256.New, s.key[:])
	m.Write([]byte(id))
	return hex.EncodeToString(m.Sum(nil))
}

// find gives a sandbox that stands.
func (s *Server) find(id string) *box {
	s.mu.Lock()
	b := s.boxes[id]
	s.mu.Unlock()
	if b == nil || b.Ending() {
		return nil
	}
	return b
}

// add makes a sandbox known, as long as it stands.
func (s *Server) add(b *box) {
	s.mu.Lock()
	s.boxes[b.ID] = b
	s.mu.Unlock()
	go func() {
		<-b.Done()
		s.mu.Lock()
		delete(s.boxes, b.ID)
		s.mu.Unlock()
	}()
}

// explain says what an error is to a client.
func (s *Server) explain(err error) (status int, message string) {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.status, f.message
	}
	return s.Explain(err)
}

// Refuse answers with an error of E2B's shape.
func (s *Server) Refuse(w http.ResponseWriter, err error) {
	status, message := s.explain(err)
	reply(w, status, map[string]any{"code": status, "message": message})
}

func reply(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"code":500,"message":"an answer that can't be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

// maxDocument is the most of a body that is one document.
const maxDocument = 16 << 20

// read reads a body, which is one document.
func (c *call) read(v any) error {
	text, err := c.document(http.MaxBytesReader(c.w, c.patient(c.server.BodyTime), maxDocument))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return &failure{http.StatusBadRequest, "the body: " + err.Error()}
	}
	return nil
}

// patient is the body, which may take as long as it likes as long as something comes.
func (c *call) patient(wait time.Duration) *sockets.Patient {
	return &sockets.Patient{ReadCloser: c.Body, Control: c.control, Wait: wait, Late: &failure{http.StatusRequestTimeout, "nothing came for too long"}}
}

// prompt is the answer, of which the client takes something in time.
func (c *call) prompt() *sockets.Prompt {
	return &sockets.Prompt{ResponseWriter: c.w, Control: c.control, Wait: c.server.WriteTime}
}
