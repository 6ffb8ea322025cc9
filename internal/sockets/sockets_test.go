package sockets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASocketThatNobodyAnswersOnIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("d", 120), "s") // longer than the kernel takes
	l, err := Listen("unix:"+path, false)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := Listen("unix:"+path, false); err == nil {
		t.Error("a second one")
	}
	abandon(l)
	l, err = Listen("unix:"+path, true)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("unix:"+path, false); err == nil {
		t.Error("in the place of a file")
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
