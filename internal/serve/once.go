package serve

import (
	"bytes"
	"crypto/sha256"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/confine-run/confine/internal/sandboxes"
)

// Of answers to requests with an Idempotency-Key are kept.
const (
	keyAge     = 24 * time.Hour
	maxKeys    = 1000
	maxKeyWord = 256
	maxKept    = 1 << 20 // bytes of one answer
)

// keys are the answers that are given again.
type keys struct {
	mu    sync.Mutex
	all   map[keyOf]*answer
	order []keyOf
}

type keyOf struct {
	owner     sandboxes.Owner
	path, key string
}

// answer is one that was given, or is being made.
type answer struct {
	digest [sha256.Size]byte // of the request's query and body
	at     time.Time
	made   chan struct{} // closed when the rest is there
	code   int           // 0: there is nothing to give again
	header http.Header
	body   []byte
}

// once has what creates something answer the same to a request that is sent again with the same Idempotency-Key.
func (s *Server) once(do func(*call) error) func(*call) error {
	return func(c *call) error {
		word := c.Header.Get("Idempotency-Key")
		switch {
		case word == "":
			return do(c)
		case len(word) > maxKeyWord:
			return fail(http.StatusBadRequest, codeBadRequest, "the Idempotency-Key has more than 256 bytes")
		case c.streams():
			return fail(http.StatusBadRequest, codeBadRequest, "frames can't be sent again by an Idempotency-Key").hint("ask for detach, and follow the output of the process")
		}
		body, err := io.ReadAll(http.MaxBytesReader(c.w, &patient{c, c.Body}, maxBody))
		if err != nil {
			return err
		}
		key := keyOf{c.owner, c.URL.Path, word}
		for {
			a, mine := s.keys.claim(key, sha256.Sum256(append([]byte(c.URL.RawQuery+"\n"), body...)))
			if a == nil {
				return fail(http.StatusConflict, codeConflict, "the Idempotency-Key was used for another request")
			}
			if mine {
				return s.keys.make(key, a, c, body, do)
			}
			select {
			case <-a.made:
			case <-c.Context().Done():
				return c.Context().Err()
			}
			if a.code == 0 { // whoever made it failed, or it is too large: this one tries
				continue
			}
			maps.Copy(c.w.Header(), a.header)
			c.w.Header().Set("Idempotent-Replayed", "true")
			c.w.WriteHeader(a.code)
			_, _ = c.w.Write(a.body)
			return nil
		}
	}
}

// claim finds the answer of a key, or begins one, which is the caller's to make. It is nil for a key of another request.
func (k *keys) claim(key keyOf, digest [sha256.Size]byte) (a *answer, mine bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.order) > 0 && (len(k.order) >= maxKeys || k.all[k.order[0]] == nil || time.Since(k.all[k.order[0]].at) > keyAge) {
		delete(k.all, k.order[0])
		k.order = k.order[1:]
	}
	if a = k.all[key]; a != nil {
		if a.digest != digest {
			return nil, false
		}
		return a, false
	}
	if k.all == nil {
		k.all = map[keyOf]*answer{}
	}
	a = &answer{digest: digest, at: time.Now(), made: make(chan struct{})}
	k.all[key] = a
	k.order = append(k.order, key)
	return a, true
}

// make makes an answer. Nothing is kept of one that is an error: the request may be sent again.
func (k *keys) make(key keyOf, a *answer, c *call, body []byte, do func(*call) error) error {
	tee := &recorder{ResponseWriter: c.w}
	inner := *c
	inner.w = tee
	request := *c.Request
	request.Body = io.NopCloser(bytes.NewReader(body))
	inner.Request = &request
	err := do(&inner)
	k.mu.Lock()
	if err == nil && tee.code < 300 && tee.kept.Len() <= maxKept {
		a.code, a.header, a.body = tee.code, c.w.Header().Clone(), tee.kept.Bytes()
	} else if k.all[key] == a {
		delete(k.all, key)
	}
	k.mu.Unlock()
	close(a.made)
	return err
}

// recorder keeps what is answered.
type recorder struct {
	http.ResponseWriter
	code int
	kept bytes.Buffer
}

func (r *recorder) WriteHeader(code int) {
	r.code = code
	r.ResponseWriter.WriteHeader(code)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.kept.Len() <= maxKept {
		r.kept.Write(b[:min(len(b), maxKept+1)])
	}
	return r.ResponseWriter.Write(b)
}
