package oci

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/confine-run/confine/internal/must"
)

func TestIDs(t *testing.T) {
	for id, good := range map[string]bool{
		"a": true, "a.b-c_d+1": true, strings.Repeat("a", 255): true,
		"": false, ".": false, "..": false, ".a": false, "a/b": false, "../a": false, "a\x00": false, "a\n": false, strings.Repeat("a", 256): false, "ä": false,
	} {
		if err := checkID(id); (err == nil) != good {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func container(t *testing.T) (root string, d *directory) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "state")
	d, err := newDirectory(root, "c")
	must.Do(t, err)
	t.Cleanup(d.close)
	return root, d
}

func TestStateIsNobodyElses(t *testing.T) {
	root, d := container(t)
	if _, err := newDirectory(root, "c"); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Error("a second one:", err)
	}
	must.Do(t, d.write(&record{ID: "c", PID: 1, Created: time.Now()}))
	if s, err := d.state(); err != nil || s.Status != specs.StateStopped || s.Pid != 0 {
		t.Error("a record of a supervisor that isn't there:", s, err)
	}
	name := filepath.Join(root, "c", recordName)
	for what, tamper := range map[string]func() error{
		"a link": func() error { return os.Symlink("/etc/passwd", name) },
		"a pipe": func() error { return syscall.Mkfifo(name, 0o600) },
		"another's": func() error {
			return os.WriteFile(name, []byte(`{"id":"d","pid":1,"created":"2026-01-01T00:00:00Z","bundle":""}`), 0o600)
		},
		"no record":     func() error { return os.WriteFile(name, []byte(`{"id":"c","more":1}`), 0o600) },
		"all may write": func() error { return os.WriteFile(name, []byte(`{"id":"c"}`), 0o600) },
	} {
		must.Do(t, os.Remove(name))
		must.Do(t, tamper())
		if what == "all may write" {
			must.Do(t, os.Chmod(name, 0o622))
		}
		if s, err := d.state(); err == nil {
			t.Errorf("%s: %+v", what, s)
		}
	}
	for _, dir := range []string{filepath.Join(root, "c"), root} {
		must.Do(t, os.Chmod(dir, 0o777))
		if d, err := openDirectory(root, "c"); err == nil {
			d.close()
			t.Error("others can write to", dir)
		}
		must.Do(t, os.Chmod(dir, 0o700))
	}
	must.Do(t, os.Symlink("c", filepath.Join(root, "l")))
	if d, err := openDirectory(root, "l"); err == nil {
		d.close()
		t.Error("a link to a container's directory was taken for one")
	}
}

// A number in the record of a container that has stopped may be somebody else's by now.
func TestDeleteKillsNobodyElse(t *testing.T) {
	root, d := container(t)
	other := exec.Command("/bin/sleep", "60")
	must.Do(t, other.Start())
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	must.Do(t, d.write(&record{ID: "c", PID: other.Process.Pid, Created: time.Now()}))
	must.Do(t, d.remove(root, true))
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Error("it was killed:", err)
	}
	if _, err := openDirectory(root, "c"); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Error(err)
	}
}
