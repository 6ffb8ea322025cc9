package overlaytest

import (
	"fmt"
	"os"
	"testing"
)

// Must stops a test, or with nil this process.
func Must(t testing.TB, err error) {
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
