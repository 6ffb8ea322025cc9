package session

import "testing"

func TestWhatIsListedIsReadAsItStands(t *testing.T) {
	for in, want := range map[string]string{"sh -c 'x' Grüße": "sh -c 'x' Grüße", "a\x1b[2J\nb\u009bc": "a?[2J?b?c", "\u202egnp.exe\u2066": "?gnp.exe?", "a\u200bb": "a?b"} {
		if got := visible(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
