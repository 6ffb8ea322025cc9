package jobs_test

import (
	"crypto/rand"
	"errors"
	"io"
	"testing"

	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/jobs/jobstest"
	"github.com/confine-run/confine/internal/must"
)

// TestAFileThatHadNoRoomIsNotThere: what is said of it is on the servers, and some of its parts are not. Who stores it once more is refused once more, and
// who fetches it doesn't wait for them.
func TestAFileThatHadNoRoomIsNotThere(t *testing.T) {
	q, err := jobs.Open(t.Context(), jobs.Options{URL: jobstest.Inside(t), Store: 32 << 20})
	must.Do(t, err)
	defer q.Close()
	for _, n := range []int64{12<<20 - 64<<10, 12 << 20, 13 << 20, 20 << 20} {
		spool, err := jobs.NewSpool(t.TempDir(), 100<<20, func(w io.Writer) error { _, err := io.CopyN(w, rand.Reader, n); return err })
		must.Do(t, err)
		for range 2 {
			stored := q.Store(t.Context(), spool)
			got, err := q.Fetch(t.Context(), t.TempDir(), spool.Digest)
			if stored == nil != (err == nil) || err != nil && !errors.Is(err, jobs.ErrNoFile) {
				t.Errorf("%d bytes: stored: %v, fetched: %v", n, stored, err)
			}
			if err == nil {
				_ = got.Close()
			}
		}
		_ = spool.Close()
	}
}
