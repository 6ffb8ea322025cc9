package changes

import (
	"testing"

	"github.com/confine-run/confine/internal/overlaytest"
)

var must = overlaytest.Must

// recovered brings every interrupted apply to an end.
func recovered(t testing.TB, s *Store) {
	stuck, err := s.Recover()
	must(t, err)
	for _, d := range stuck {
		must(t, d.Stuck)
	}
}
