package command

import "testing"

func TestWhatAWorkerSaysKeepsItsLines(t *testing.T) {
	if got, want := lines("no\x1b[m profile\nhint: another"), "no\\x1b[m profile\nconfine submit: hint: another"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}
