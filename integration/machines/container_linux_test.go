package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestTheContainerHasDockersProfile(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the profile depends on the architecture, and the machines are amd64")
	}
	to := filepath.Join(t.TempDir(), "config.json")
	if err := containerConfig("config.json", to); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(to)
	if err != nil || !bytes.Contains(text, []byte(`"defaultAction":"SCMP_ACT_ERRNO"`)) {
		t.Errorf("%v, %s", err, text)
	}
}
