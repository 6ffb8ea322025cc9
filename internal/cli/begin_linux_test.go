package cli

import (
	"testing"
	"unsafe"
)

// A child that is begun for no run is ended by nobody before this process ends.
func TestChildIsBegunForWhatRuns(t *testing.T) {
	words := map[string]bool{"": true, "ls": true, "--": true, "-p": true, "--log": true, "runs": true, "ru": true, "-": true, "-help": true,
		"-h": false, "--help": false, "--version": false, completeWord: false, "__child": false, "__": false}
	for _, c := range commands {
		words[c.Name] = c.Name == "run"
	}
	for word, want := range words {
		stack := struct {
			argc uintptr
			argv [3]*byte
		}{argc: 2, argv: [3]*byte{unsafe.StringData("confine\x00"), unsafe.StringData(word + "\x00")}}
		if got := runs(unsafe.Pointer(&stack)); got != want {
			t.Errorf("confine %s: %v", word, got)
		}
		if stack.argc = 1; runs(unsafe.Pointer(&stack)) {
			t.Error("confine alone")
		}
	}
}
