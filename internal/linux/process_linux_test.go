package linux

import "testing"

func TestParsePID(t *testing.T) {
	for text, want := range map[string]int{
		"pos:\t0\nflags:\t02000002\nPid:\t123\nNSpid:\t123\n": 123,
		"Pid:\t-1\n":  0, // gone
		"Pid:\t\n":    0,
		"NSpid:\t7\n": 0,
		"":            0,
	} {
		if got := parsePID(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
