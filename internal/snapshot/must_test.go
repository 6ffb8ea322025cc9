package snapshot

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
