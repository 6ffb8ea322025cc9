package serve

import (
	"bytes"
	"crypto/sha256"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/confine-run/confine/internal/sandboxes"
)

// Of answers to requests with an Idempotency-Key are kept.
const (
	keyAge     = 24 * time.Hour
	maxKeys    = 1000 // of one owner, as what follows
	maxKeyWord = 256
	maxKept    = 1 << 20  // bytes of one answer
	maxKeptAll = 16 << 20 // bytes of all
)

// keys are the answers that are given again, to each owner its own.
type keys struct {
	mu  sync.Mutex
	all map[sandboxes.Owner]*ownKeys
}

// ownKeys are those of one owner.
type ownKeys struct {
	all   map[keyOf]*answer
	order []keyOf // of those that are made or being made, by age
	bytes int
}

type keyOf struct{ path, key string }

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
		if err := c.bodies.take(c); err != nil {
			return err
		}
		body, err := io.ReadAll(http.MaxBytesReader(c.w, c.patient(), maxBody))
		if err != nil {
			return err
		}
		key := keyOf{c.URL.Path, word}
		for {
			a, mine, err := s.keys.claim(c.owner, key, sha256.Sum256(append([]byte(c.URL.RawQuery+"\n"), body...)))
			if err != nil {
				return err
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

// claim finds the answer of a key, or begins one, which is the caller's to make.
func (k *keys) claim(owner sandboxes.Owner, key keyOf, digest [sha256.Size]byte) (a *answer, mine bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	own := k.all[owner]
	if own == nil {
		own = &ownKeys{all: map[keyOf]*answer{}}
		if k.all == nil {
			k.all = map[sandboxes.Owner]*ownKeys{}
		}
		k.all[owner] = own
	}
	if a = own.all[key]; a != nil && time.Since(a.at) <= keyAge {
		if a.digest != digest {
			return nil, false, fail(http.StatusConflict, codeConflict, "the Idempotency-Key was used for another request")
		}
		return a, false, nil
	}
	own.drop(maxKeys - 1)
	if len(own.all) >= maxKeys {
		return nil, false, fail(http.StatusTooManyRequests, codeQuota, "too many requests with an Idempotency-Key are under way").hint("wait for some")
	}
	a = &answer{digest: digest, at: time.Now(), made: make(chan struct{})}
	own.all[key] = a
	own.order = append(own.order, key)
	return a, true, nil
}

// drop forgets what is old, and the oldest until so many are left that they don't take too much. What is being made stays.
func (o *ownKeys) drop(most int) {
	o.order = slices.DeleteFunc(o.order, func(key keyOf) bool {
		a := o.all[key]
		if a == nil {
			return true
		}
		if a.code == 0 || len(o.all) <= most && o.bytes <= maxKeptAll && time.Since(a.at) <= keyAge {
			return false
		}
		o.bytes -= len(a.body)
		delete(o.all, key)
		return true
	})
}

// make makes an answer. Nothing is kept of one that is an error: the request may be sent again.
func (k *keys) make(key keyOf, a *answer, c *call, body []byte, do func(*call) error) error {
	tee := &recorder{ResponseWriter: c.w}
	inner := *c
	inner.w, inner.bodies = tee, nil
	request := *c.Request
	request.Body = io.NopCloser(bytes.NewReader(body))
	inner.Request = &request
	err := inner.ended(do(&inner))
	k.mu.Lock()
	own := k.all[c.owner]
	if err == nil && tee.code < 300 && tee.kept.Len() <= maxKept {
		a.code, a.header, a.body = tee.code, c.w.Header().Clone(), bytes.Clone(tee.kept.Bytes())
		own.bytes += len(a.body)
		own.drop(maxKeys)
	} else if own.all[key] == a {
		delete(own.all, key)
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
