package integration

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
)

// killed is how often the supervisor is killed; after killedWithin at most, in
// which it sets up the run and is in the middle of it.
const (
	killed       = 40
	killedWithin = 60 * time.Millisecond
)

// TestNothingOutlivesAKilledSupervisor kills confine where it can't do anything
// about it, at random moments from its start on.
func TestNothingOutlivesAKilledSupervisor(t *testing.T) {
	t.Parallel()
	p := placeOf(t)
	began := 0
	for range killed {
		delay := rand.N(killedWithin)
		cmd := p.command(t.Context(), "confine", "-p", "testing", "--", "sh", "-c",
			p.program("attempt")+" daemon 60; echo began; exec "+p.program("attempt")+" deaf 60")
		var out strings.Builder
		cmd.Stdout = &out
		must.Do(t, cmd.Start())
		time.Sleep(delay) // the moment is what is tested
		must.Do(t, cmd.Process.Kill())
		_ = cmd.Wait()
		if strings.Contains(out.String(), "began") {
			began++
		}
		if left := p.stays(); len(left) > 0 {
			t.Fatalf("killed after %v, and left behind:\n%s", delay, strings.Join(left, "\n"))
		}
	}
	t.Logf("of %d runs %d had begun", killed, began)
}
