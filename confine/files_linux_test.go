package confine_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/must"
)

// boxOf opens a sandbox whose directory is writable, and a shell for it.
func boxOf(t *testing.T, dir string) (confine.Files, func(script string) string) {
	t.Helper()
	policy := confine.Default()
	policy.TimeLimit, policy.AllowPartial = time.Minute, []string{"all"}
	policy.Filesystem.Workdir = "rw"
	box, err := confine.Open(t.Context(), policy, confine.WithCommand("sh"), confine.WithDir(dir))
	must.Do(t, err)
	t.Cleanup(func() { _, _ = box.Close() })
	files := box.Files()
	if _, err := files.Stat("/tmp"); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("no files of its own here")
	}
	return files, func(script string) string {
		out, _, _ := box.Command("sh", "-c", script).CombinedOutput()
		return string(out)
	}
}

// What is protected in a writable tree is held by mounts, which the kernel lets nobody take away from inside, and anybody who has
// other mounts: the caller.
func TestNoProtectedFileIsRemovedOrMoved(t *testing.T) {
	dir := t.TempDir()
	hooks := filepath.Join(dir, ".git", "hooks")
	if err := errors.Join(os.MkdirAll(hooks, 0o755), os.WriteFile(filepath.Join(dir, ".git", "config"), []byte("[core]\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "free"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	files, sh := boxOf(t, dir)
	config := filepath.Join(dir, ".git", "config")
	if out := sh("rm -f " + config + "; mv " + hooks + " " + hooks + "2; rm " + dir + "/free"); !strings.Contains(out, "busy") {
		t.Errorf("from inside: %s", out)
	}
	if _, err := os.Stat(filepath.Join(dir, "free")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the control: what isn't protected is there: %v", err)
	}
	must.Do(t, files.WriteFile(filepath.Join(dir, "evil"), []byte("[core]\nfsmonitor=x\n"), 0o644))
	for what, err := range map[string]error{
		"removed": files.Remove(config), "a directory removed": files.Remove(hooks), "moved": files.Rename(config, filepath.Join(dir, "c")),
		"a directory moved": files.Rename(hooks, filepath.Join(dir, "h")), "renamed over": files.Rename(filepath.Join(dir, "evil"), config),
	} {
		if !errors.Is(err, syscall.EBUSY) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"written": files.WriteFile(config, []byte("evil"), 0o644), "chmod": files.Chmod(config, 0o777), "made in it": files.Symlink("x", filepath.Join(hooks, "post-commit")),
		"a directory chmod": files.Chmod(hooks, 0o777),
	} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if text, err := os.ReadFile(config); err != nil || string(text) != "[core]\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// Links lead nowhere out of the sandbox, and what isn't a regular file is never opened.
func TestHostileFiles(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(secret, []byte("of the host"), 0o600))
	files, sh := boxOf(t, t.TempDir())
	sh("cd /tmp; mkfifo fifo; ln -s " + secret + " out; ln -s /proc/self/root/etc proc; ln -s /proc/1/fd/0 magic; ln -s /dev/tty tty; mkdir sub; ln -s ../../../../../.." + secret + " sub/up")
	if target, err := files.Readlink("/tmp/out"); err != nil || target != secret {
		t.Fatalf("the links are not there: %q, %v", target, err)
	}
	start := time.Now()
	for _, name := range []string{"/tmp/out", "/tmp/sub/up", "/tmp/proc/passwd", "/tmp/magic", "/tmp/tty", "/tmp/fifo", "/proc/self/environ", "/proc/self/exe", "/dev/null", "/sys/kernel/profiling"} {
		if r, err := files.Open(name); err == nil {
			t.Errorf("%s was opened", name)
			r.Close()
		}
		if w, err := files.Create(name, 0o600); err == nil {
			t.Errorf("%s was written", name)
			w.Close()
		}
		if err := files.Chmod(name, 0o666); err == nil {
			t.Errorf("%s was changed", name)
		}
	}
	for _, name := range []string{"/proc", "/tmp/proc", "/sys/kernel", "/tmp/fifo"} {
		if w, err := files.Watch(name, true); err == nil {
			t.Errorf("%s is watched", name)
			w.Close()
		}
	}
	if time.Since(start) > 5*time.Second {
		t.Error("something was waited for")
	}
	if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the host's file: %v, %v", info.Mode(), err)
	}
}

// Something inside swaps a name between a file and links that lead out, while it is written, changed and read.
func TestSwappedWhileItIsUsed(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	must.Do(t, os.WriteFile(secret, []byte("of the host"), 0o600))
	inside := t.TempDir()
	files, sh := boxOf(t, inside)
	done := make(chan string)
	go func() {
		done <- sh("exec 2>/dev/null; cd /tmp; mkdir real; echo x >real/f; i=0; while [ $i -lt 150 ]; do ln -sfn real d; ln -sfn /dev d; ln -sfn " + dir + " d; ln -sf " + secret +
			" l; rm -f l; echo x >l; rm -f l; mkfifo l; rm -f l; i=$((i+1)); done; echo over")
	}()
	n := 0
	for {
		select {
		case out := <-done:
			if !strings.HasSuffix(out, "over\n") || n == 0 {
				t.Errorf("%d tries; %s", n, out)
			}
			if text, err := os.ReadFile(secret); err != nil || string(text) != "of the host" {
				t.Errorf("the host's file: %q, %v", text, err)
			}
			if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the host's file: %v, %v", info.Mode(), err)
			}
			return
		default:
		}
		n++
		for _, name := range []string{"/tmp/d/secret", "/tmp/l", "/tmp/d/f"} {
			if r, err := files.Open(name); err == nil {
				text, _ := io.ReadAll(r)
				r.Close()
				if strings.Contains(string(text), "of the host") {
					t.Fatalf("%s led out", name)
				}
			}
			_ = files.WriteFile(name, []byte("x\n"), 0o600)
			_ = files.Chmod(name, 0o666)
			_ = files.Rename(name, "/tmp/elsewhere")
		}
	}
}

// A flood of events is bounded, and told to be lost; and whoever renames directories gets no other's events.
func TestWatchingAFlood(t *testing.T) {
	files, sh := boxOf(t, t.TempDir())
	must.Do(t, files.Mkdir("/tmp/w", 0o700))
	w, err := files.Watch("/tmp/w", true)
	must.Do(t, err)
	defer w.Close()
	if out := sh("cd /tmp/w; i=0; while [ $i -lt 20000 ]; do : >f$i; i=$((i+1)); done; mkdir -p a/b; : >a/b/c; mv a z; : >z/b/d; ln -s / z/out; echo over"); out != "over\n" {
		t.Fatal(out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lost := false
	for !lost {
		events, err := w.Next(ctx)
		must.Do(t, err)
		for _, e := range events {
			lost = lost || e.Op == "lost"
		}
	}
	sh(": >/tmp/w/z/b/e")
	for {
		events, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("after what was lost nothing is told of a directory made meanwhile: %v", err)
		}
		for _, e := range events {
			if strings.HasPrefix(e.Name, "z/out/") || strings.HasPrefix(e.Name, "a/") {
				t.Errorf("%v", e)
			}
			if e.Name == "z/b/e" {
				return
			}
		}
	}
}
