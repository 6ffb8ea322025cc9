package serve

import (
	"net/http"
	"sync"

	"github.com/confine-run/confine/internal/places"
	"github.com/confine-run/confine/internal/sandboxes"
)

// What one owner may have of the server at one time, so that there is something left for others.
const (
	maxBodies = 4 * maxBody // bytes of documents that are being read, or were and are acted on
	smallBody = 64 << 10    // the largest that isn't counted
)

// conns are how many connections there are at a time: 1024 at most, and an eighth of the descriptors. Of one owner, three quarters of them
// have a request under way.
var conns = sync.OnceValue(func() int {
	const most, least = 1024, 32
	if n := places.Descriptors(); n > 0 {
		return max(least, min(most, n/8))
	}
	return most
})

// share counts what each owner has.
type share struct {
	mu   sync.Mutex
	used map[sandboxes.Owner]int64
}

// take takes so much for an owner, unless that has too much then. done gives it back.
func (s *share) take(owner sandboxes.Owner, n, most int64) (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[owner]+n > most {
		return nil, false
	}
	if s.used == nil {
		s.used = map[sandboxes.Owner]int64{}
	}
	s.used[owner] += n
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.used[owner] -= n; s.used[owner] == 0 {
			delete(s.used, owner)
		}
	}), true
}

// bodies are the documents of requests.
type bodies struct{ share }

// take makes room for the document of a request, until that is over.
func (b *bodies) take(c *call) error {
	n := c.ContentLength
	if b == nil || n >= 0 && n <= smallBody {
		return nil
	}
	if n < 0 || n > maxBody {
		n = maxBody
	}
	done, ok := b.share.take(c.owner, n, maxBodies)
	if !ok {
		return fail(http.StatusTooManyRequests, codeQuota, "too many large requests are under way").hint("send fewer at once, and files by PUT")
	}
	c.done = append(c.done, done)
	return nil
}
