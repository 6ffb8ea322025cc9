package changes

import (
	"fmt"
	"os"
	"testing"
)

// must stops a test, or a role.
func must(t testing.TB, err error) {
	if err == nil {
		return
	}
	if t == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	t.Helper()
	t.Fatal(err)
}

// recovered brings every interrupted apply to an end.
func recovered(t testing.TB, s *Store) {
	stuck, err := s.Recover()
	must(t, err)
	for _, d := range stuck {
		must(t, d.Stuck)
	}
}
