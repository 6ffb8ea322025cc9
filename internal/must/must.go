// Package must is for steps of a test without which the rest proves nothing.
package must

import (
	"testing"
	"time"
)

// Do ends the test where a step of it failed.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Within says whether something comes to be so in time.
func Within(most time.Duration, so func() bool) bool {
	for end := time.Now().Add(most); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
