package image

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

func TestEachErrorHasTheRemedyThatHelps(t *testing.T) {
	if _, err := exec.LookPath("gzip"); err != nil {
		t.Skip(err)
	}
	layout := func() string { return newLayout(t, archive(t, "f=1")) }
	tarred := func(m ...member) string { return newFile(t, archive(t, m...)) }
	cache := func() string { return filepath.Join(t.TempDir(), "c") }
	for name, c := range map[string]struct {
		src, cache   string
		path         string // a directory of programs; "": the host's
		says, remedy string
	}{
		"no place":        {layout(), "/proc/none/c", "", "/proc/none", "a directory that you can write to"},
		"no gzip":         {layout(), cache(), t.TempDir(), "gzip", "install it"},
		"a mute gzip":     {layout(), cache(), gzipThat(t, "exec cat >/dev/null"), "put out nothing", "save it again"},
		"others' cache":   {layout(), open(t, 0o777), "", "somebody else", "of your own"},
		"a blob missing":  {without(t, layout(), "blobs"), cache(), "", "blobs", "save it again"},
		"no image":        {newFile(t, []byte("text")), cache(), "", "no tar", "it takes a directory"},
		"a link to none":  {tarred("l -> none", "l/f=1"), cache(), "", `"l" is a link in the image`, ""},
		"a hard one":      {tarred("h => none"), cache(), "", `a hard link to, "none"`, ""},
		"leads outside":   {tarred("../f=1"), cache(), "", "leads out", ""},
		"a file as a dir": {tarred("f=1", "f/g=1"), cache(), "", "not a directory", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.path != "" {
				t.Setenv("PATH", c.path)
			}
			_, err := Unpack(t.Context(), c.src, c.cache)
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "already closed") {
				t.Fatalf("%v", err)
			}
			if got := Remedy(err); (got == "") != (c.remedy == "") || !strings.Contains(got, c.remedy) {
				t.Errorf("%v: %q", err, got)
			}
		})
	}
	if got := Remedy(fmt.Errorf("%q: %w", "f", unix.ENOSPC)); !strings.Contains(got, "make room") {
		t.Error(got)
	}
}

// What is read once more at its end says the same again.
func TestTheEndOfAProgramIsItsEnd(t *testing.T) {
	for text, want := range map[string]error{"echo f": io.EOF, "echo f; exit 1": errProgram, ":": errProgram} {
		t.Setenv("PATH", gzipThat(t, text))
		in, err := plain(t.Context(), strings.NewReader("\x1f\x8b\x08\x00"))
		must.Do(t, err)
		_, first := io.Copy(io.Discard, in)
		if first == nil {
			first = io.EOF
		}
		if _, again := in.Read(make([]byte, 1)); again != first && first == io.EOF || !errors.Is(again, want) || !errors.Is(first, want) {
			t.Errorf("%q: %v, then %v", text, first, again)
		}
		_ = in.Close()
	}
}

// gzipThat is a directory with a gzip of our own.
func gzipThat(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "gzip"), []byte("#!/bin/sh\nPATH=/usr/bin:/bin\n"+text+"\n"))
	must.Do(t, os.Chmod(filepath.Join(dir, "gzip"), 0o755))
	return dir
}

func open(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.Chmod(dir, mode))
	return dir
}

func without(t *testing.T, dir, name string) string {
	t.Helper()
	must.Do(t, os.RemoveAll(filepath.Join(dir, name)))
	return dir
}

func newFile(t testing.TB, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	write(t, name, content)
	return name
}
