// Package must is for steps of a test without which the rest proves nothing.
package must

import "testing"

// Do ends the test where a step of it failed.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
