package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/conformance"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// sandboxOf opens a sandbox with a private place and an overlay.
func sandboxOf(t testing.TB, ctx context.Context, change func(*backend.Spec)) *sandbox {
	t.Helper()
	p := config.Default()
	p.Filesystem.Workdir = "overlay"
	p.AllowPartial = []string{config.WordAll}
	p.TimeLimit, p.CPUTime, p.Grace = time.Minute, 5*time.Minute, 100*time.Millisecond
	s := &backend.Spec{Policy: &p, Argv: []string{"sh"}, Dir: t.TempDir(), Environ: os.Environ()}
	if change != nil {
		change(s)
	}
	box, failed, err := backend.Open(ctx, Backend{}, s)
	if err != nil || failed != nil {
		t.Fatalf("%v, %+v", err, failed)
	}
	t.Cleanup(func() { _, _ = box.Close() })
	return box.(*sandbox)
}

// sh runs a script inside, to its end.
func sh(t testing.TB, box backend.Sandbox, script string) *status.Report {
	t.Helper()
	p, err := box.Start(context.Background(), &backend.Exec{Argv: []string{"sh", "-c", script}, Stderr: os.Stderr})
	must.Do(t, err)
	return p.Wait()
}

// The figures of the largest sandboxes: a GiB of files in memory.
func BenchmarkGiB(b *testing.B) {
	box := sandboxOf(b, b.Context(), func(s *backend.Spec) { s.Policy.DiskLimit, s.Policy.MemoryLimit = 3<<30, 6<<30 })
	if r := sh(b, box, "for i in 0 1 2 3 4 5 6 7; do head -c 134217728 /dev/urandom >/tmp/$i; done"); r.Status != status.OK {
		b.Fatal(r.Status, r.Reason)
	}
	var forks, clean, closes, opens []time.Duration
	for range 20 {
		sh(b, box, "echo >>/tmp/dirty")
		began := time.Now()
		f, err := box.Fork(b.Context())
		must.Do(b, err)
		forks = append(forks, time.Since(began))
		began = time.Now()
		g, err := box.Fork(b.Context())
		must.Do(b, err)
		clean = append(clean, time.Since(began))
		began = time.Now()
		_, _ = f.Close()
		closes = append(closes, time.Since(began))
		_, _ = g.Close()
		began = time.Now()
		o, _, err := backend.Open(b.Context(), Backend{}, box.spec)
		must.Do(b, err)
		opens = append(opens, time.Since(began))
		_, _ = o.Close()
	}
	for _, all := range [][]time.Duration{forks, clean, closes, opens} {
		slices.Sort(all)
	}
	b.Logf("fork: least %v, p50 %v, p95 %v; again, with nothing written since: p50 %v; closed: p50 %v; an empty one opened: p50 %v", forks[0], forks[10], forks[18], clean[10], closes[10], opens[10])
	began := time.Now()
	snap, err := box.Snapshot(b.Context())
	must.Do(b, err)
	b.Logf("snapshot: %v", time.Since(began))
	began = time.Now()
	must.Do(b, box.Restore(b.Context(), snap))
	b.Logf("restore, unpacked for the first time: %v", time.Since(began))
	began = time.Now()
	must.Do(b, box.Restore(b.Context(), snap))
	b.Logf("restore again: %v", time.Since(began))
	if r := sh(b, box, "test $(cat /tmp/? | wc -c) = 1073741824"); r.Status != status.OK {
		b.Fatal(r.Status, r.Reason)
	}
}

// forked forks a sandbox.
func forked(t testing.TB, box backend.Sandbox) backend.Sandbox {
	t.Helper()
	f, err := box.Fork(context.Background())
	must.Do(t, err)
	t.Cleanup(func() { _, _ = f.Close() })
	return f
}

// says is what a script prints, without the last newline.
func says(t testing.TB, box backend.Sandbox, script string) string {
	t.Helper()
	var out strings.Builder
	p, err := box.Start(context.Background(), &backend.Exec{Argv: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	must.Do(t, err)
	p.Wait()
	return strings.TrimSuffix(out.String(), "\n")
}

// descriptors counts those of this process.
func descriptors(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must.Do(t, err)
	return len(all)
}

// What is written together is copied together: everybody stands still meanwhile, whoever they make.
func TestWhoForksWithoutEndIsStoppedForACopy(t *testing.T) {
	onLayers(t)
	box := sandboxOf(t, t.Context(), func(s *backend.Spec) { s.Policy.Processes = 48 })
	// It forks nobody itself: there is no room for one more.
	const counts = `exec perl -e 'for ($i = 1;; $i++) { for $f ("/tmp/a", "/tmp/b") { open F, ">$f.new"; print F "$i\n"; close F; rename "$f.new", $f } }'`
	for _, script := range []string{counts, "while :; do (sh -c : &) 2>/dev/null; done", "while :; do sleep 0.01 & done 2>/dev/null"} {
		if _, err := box.Start(t.Context(), &backend.Exec{Argv: []string{"sh", "-c", script}}); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := box.Files().Stat("/tmp/b"); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nothing is counted")
		}
	}
	last := 0
	for range 5 {
		f, err := box.Fork(t.Context())
		must.Do(t, err)
		var a, b int
		if n, err := fmt.Sscan(says(t, f, "cat /tmp/a /tmp/b"), &a, &b); n != 2 || a != b && a != b+1 || a < last {
			t.Errorf("a %d, b %d, before %d; %v", a, b, last, err)
		}
		last = a
		if n := says(t, f, "ls /proc | grep -c '^[0-9]'"); n > "5" || len(n) > 1 {
			t.Errorf("%s processes in a fork", n)
		}
		conformance.Close(t, f)
	}
	conformance.Close(t, box)
}

func TestManyForksAtOnceLeaveNothing(t *testing.T) {
	onLayers(t)
	before := descriptors(t)
	box := sandboxOf(t, t.Context(), nil)
	sh(t, box, "echo 1 >/tmp/a")
	for _, busy := range []bool{false, true} {
		if busy {
			if _, err := box.Start(t.Context(), &backend.Exec{Argv: []string{"sleep", "1000"}}); err != nil {
				t.Fatal(err)
			}
		}
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				f, err := box.Fork(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if got := says(t, f, fmt.Sprintf("cat /tmp/a; echo %d >/tmp/a; cat /tmp/a", i)); got != fmt.Sprintf("1\n%d", i) {
					t.Errorf("%q", got)
				}
				conformance.Close(t, f)
			})
		}
		all.Wait()
	}
	if got := says(t, box, "cat /tmp/a"); got != "1" {
		t.Errorf("%q", got)
	}
	conformance.Close(t, box)
	left(t, before)
}

// left says what was not let go of.
func left(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); descriptors(t) > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			all, _ := filepath.Glob("/proc/self/fd/*")
			for _, name := range all {
				at, _ := os.Readlink(name)
				t.Log(name, at)
			}
			t.Errorf("%d descriptors, %d before", descriptors(t), before)
			return
		}
	}
	if all, _ := filepath.Glob(filepath.Join(os.TempDir(), fmt.Sprintf("confine-snapshots-%d-*", os.Geteuid()))); len(all) > 0 {
		t.Errorf("left behind: %q", all)
	}
}

// What can't be restored, as what was made by hand and is no snapshot of a sandbox, leaves the sandbox as it was.
func TestARestoreThatFailsChangesNothing(t *testing.T) {
	kept := t.TempDir()
	box := sandboxOf(t, t.Context(), func(s *backend.Spec) { s.Snapshots = kept })
	sh(t, box, "echo a >/tmp/a")
	snapshot, err := box.Snapshot(t.Context())
	must.Do(t, err)
	defer snapshot.Close()
	must.Do(t, box.Restore(t.Context(), snapshot))
	spoiled := 0
	_ = filepath.WalkDir(kept, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && e.Name() == "tmp" {
			spoiled++
			must.Do(t, errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600)))
			return fs.SkipDir
		}
		return nil
	})
	if spoiled == 0 {
		t.Fatal("nothing was unpacked")
	}
	sh(t, box, "echo b >/tmp/b; sleep 100 & until grep -qx sleep /proc/$!/comm; do :; done")
	var unbuilt *backend.BuildError
	if err := box.Restore(t.Context(), snapshot); !errors.As(err, &unbuilt) {
		t.Fatal(err)
	}
	if r := sh(t, box, "test -f /tmp/b && grep -qx sleep /proc/[0-9]*/comm"); r.Status != status.OK {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	if r, err := box.Close(); err != nil || r.Cause != "" {
		t.Errorf("%+v, %v", r, err)
	}
}

// A child that waits for the next fork is no part of any: whoever kills it delays that, and it goes with the sandbox that was forked.
func TestWhatWaitsForTheNextFork(t *testing.T) {
	children := func() (all []int) {
		lists, _ := filepath.Glob("/proc/self/task/*/children")
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for _, word := range strings.Fields(string(text)) {
				pid, _ := strconv.Atoi(word)
				all = append(all, pid)
			}
		}
		slices.Sort(all)
		return all
	}
	box := sandboxOf(t, t.Context(), nil)
	fork := func() backend.Sandbox {
		f, err := box.Fork(t.Context())
		must.Do(t, err)
		if r := sh(t, f, "true"); r.Status != status.OK {
			t.Errorf("%s: %s", r.Status, r.Reason)
		}
		return f
	}
	defer fork().Close()
	waits := children()
	for end := time.Now().Add(10 * time.Second); len(waits) != 3 && time.Now().Before(end); waits = children() {
		time.Sleep(time.Millisecond) // it is cloned beside us
	}
	if len(waits) != 3 {
		t.Fatalf("%d children: want the sandbox, its fork, and what waits for another", len(waits))
	}
	for _, pid := range waits {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", pid)); err != nil || len(text) > 0 {
			continue // it is somebody's
		}
		fd, err := unix.PidfdOpen(pid, 0)
		err = errors.Join(err, unix.Kill(pid, unix.SIGKILL))
		must.Do(t, err)
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000); n != 1 {
			t.Fatal(err)
		}
		_ = unix.Close(fd)
	}
	defer fork().Close()
	conformance.Close(t, box)
	if now := children(); len(now) != 2 {
		t.Errorf("%d children: want two forks", len(now))
	}
}

func TestForksOfWhatIsBeingClosed(t *testing.T) {
	onLayers(t)
	before := descriptors(t)
	for i := range 20 {
		box := sandboxOf(t, t.Context(), nil)
		sh(t, box, "echo 1 >/tmp/a")
		if i%2 == 0 {
			if _, err := box.Start(t.Context(), &backend.Exec{Argv: []string{"sleep", "1000"}}); err != nil {
				t.Fatal(err)
			}
		}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				f, err := box.Fork(t.Context())
				if err == nil {
					_, err = f.Close()
				}
				if err != nil && !errors.Is(err, backend.ErrClosed) {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Duration(i) * time.Millisecond)
		conformance.Close(t, box)
		both.Wait()
		select {
		case <-box.Done():
		default:
			t.Error("closed, and not done")
		}
	}
	left(t, before)
}

// A sandbox that ends by a limit of its own while it is forked has ended: it isn't brought back.
func TestForksOfWhatIsKilledForItsMemory(t *testing.T) {
	onLayers(t)
	before := descriptors(t)
	box := sandboxOf(t, t.Context(), func(s *backend.Spec) { s.Policy.MemoryLimit = 96 << 20 })
	sh(t, box, "echo 1 >/tmp/a")
	if _, err := box.Start(t.Context(), &backend.Exec{Argv: []string{"sh", "-c", "sleep 0.3; head -c 2000000000 /dev/zero | tail"}}); err != nil {
		t.Fatal(err)
	}
	for ended := false; !ended; {
		f, err := box.Fork(t.Context())
		if err == nil {
			if got := says(t, f, "cat /tmp/a"); got != "1" {
				t.Errorf("%q", got)
			}
			_, err = f.Close()
		}
		if err != nil && !errors.Is(err, backend.ErrClosed) && !errors.Is(err, backend.ErrUnstopped) { // who gives back memory doesn't stand still
			t.Error(err)
		}
		select {
		case <-box.Done():
			ended = true
		case <-time.After(time.Millisecond):
		}
	}
	r, err := box.Close()
	if err != nil || !slices.Contains(r.LimitsHit, string(status.Memory)) {
		t.Errorf("%q, %s, %v", r.LimitsHit, r.Cause, err)
	}
	left(t, before)
}

// Who stands on what others have left has no more room than they had.
func TestForksOfForksHaveTheLimitsOfOne(t *testing.T) {
	onLayers(t)
	box := sandboxOf(t, t.Context(), func(s *backend.Spec) {
		s.Policy.DiskLimit, s.Policy.MaxFiles = 8<<20, 200
		s.Policy.Filesystem.Mounts = []config.Mount{{Dst: "/sized", Size: 4 << 20}}
	})
	fill := func(name string, kib int) string {
		return fmt.Sprintf("head -c %d /dev/zero 2>/dev/null >%s; wc -c <%s", kib<<10, name, name)
	}
	if got := says(t, box, fill("/tmp/1", 5<<10)+"; "+fill("/sized/1", 3<<10)); got != fmt.Sprintf("%d\n%d", 5<<20, 3<<20) {
		t.Errorf("%q", got)
	}
	f := forked(t, forked(t, box))
	for name, b := range map[string]backend.Sandbox{"the source": box, "a fork of a fork": f} {
		for _, file := range []struct {
			path string
			most int
		}{{"/tmp/2", 3 << 20}, {"/sized/2", 1 << 20}} {
			n, err := strconv.Atoi(says(t, b, fill(file.path, 16<<10)))
			if err != nil || n > file.most || n < file.most/2 {
				t.Errorf("%s: %d bytes in %s, %v", name, n, file.path, err)
			}
		}
		if got := says(t, b, "wc -c </tmp/1; wc -c </sized/1"); got != fmt.Sprintf("%d\n%d", 5<<20, 3<<20) {
			t.Errorf("%s: %q", name, got)
		}
	}
	// Nothing is left of it: that is said, and the sandbox is what it was.
	if _, err := f.Fork(t.Context()); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a fork without room: %v", err)
	}
	if got := says(t, f, "rm /tmp/2 /sized/2; echo there"); got != "there" {
		t.Errorf("%q", got)
	}
	again := forked(t, f)
	if got := says(t, again, "i=0; while [ $i -lt 400 ] && : >/tmp/f$i; do i=$((i+1)); done 2>/dev/null; echo $i"); len(got) > 3 || got > "200" {
		t.Errorf("%s files of 200", got)
	}
}

// What is hidden or protected is so whatever layers have there.
func TestMasksHoldOnLayers(t *testing.T) {
	onLayers(t)
	box := sandboxOf(t, t.Context(), func(s *backend.Spec) {
		for _, dir := range []string{"d", ".git/hooks"} {
			must.Do(t, os.MkdirAll(filepath.Join(s.Dir, dir), 0o755))
		}
		for _, name := range []string{"there", "d/there", "moved"} {
			must.Do(t, os.WriteFile(filepath.Join(s.Dir, name), []byte("secret"), 0o644))
		}
		s.Policy.Filesystem.Deny = []string{"there", "d/there", "later", "d/later"}
	})
	dir := box.spec.Dir
	if got := says(t, box, "cat there d/there; echo mine >later; echo mine >d/later; cat later; mv d e && cat e/later; rm moved; mkdir moved"); strings.Contains(got, "secret") || !strings.Contains(got, "mine") {
		t.Errorf("%q", got)
	}
	f := forked(t, box)
	snap, err := f.Snapshot(t.Context())
	must.Do(t, err)
	again := forked(t, f)
	must.Do(t, again.Restore(t.Context(), snap))
	for name, b := range map[string]backend.Sandbox{"the source": box, "a fork": f, "restored": again} {
		if got := says(t, b, "cat there e/there d/there 2>/dev/null; cat later; ls -d moved"); got != "mine\nmoved" {
			t.Errorf("%s: %q", name, got)
		}
	}
	spec, policy := *box.spec, *box.spec.Policy
	policy.Filesystem.Deny = append(policy.Filesystem.Deny, "e")
	spec.Policy, spec.From = &policy, snap
	other := conformance.Open(t, Backend{}, &spec)
	if got := says(t, other, "cat there e/there e/later d/there later 2>/dev/null; ls -d moved"); got != "moved" {
		t.Errorf("under a policy that hides more: %q", got)
	}
	if err := snap.Close(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "there")); err != nil || string(text) != "secret" { // the control
		t.Errorf("%q, %v", text, err)
	}
}

// Directories of layers are moved as those of any overlay: rename says no, and mv copies.
func TestDirectoriesOfLayersAreMoved(t *testing.T) {
	onLayers(t)
	box := sandboxOf(t, t.Context(), nil)
	sh(t, box, "mkdir -p /tmp/d/e; echo 1 >/tmp/d/e/f; ln -s e /tmp/d/l; chmod 1777 /tmp/d; mkdir -m 0 /tmp/shut; echo 2 >/dev/shm/s")
	f := forked(t, forked(t, box))
	if got := says(t, f, "mv /tmp/d /tmp/n && cat /tmp/n/l/f && stat -c %a /tmp/n /tmp /dev/shm /tmp/shut; ls -d /tmp/d /tmp/shut /tmp/n 2>/dev/null; cat /dev/shm/s; rm -r /tmp/n && mkdir /tmp/d && ls /tmp/d"); got != "1\n1777\n1777\n1777\n0\n/tmp/n\n/tmp/shut\n2" {
		t.Errorf("%q", got)
	}
	if got := says(t, box, "cat /tmp/d/l/f"); got != "1" {
		t.Errorf("%q", got)
	}
}

// A sandbox adds up what it was.
func TestReportsAddUp(t *testing.T) {
	onLayers(t)
	box := sandboxOf(t, t.Context(), nil)
	const burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; mount -t tmpfs x /tmp 2>/dev/null; :"
	sh(t, box, burn)
	one := forked(t, box)
	sh(t, box, burn)
	r, err := box.Close()
	must.Do(t, err)
	other, err := one.Close()
	must.Do(t, err)
	if r.Usage.CPUMS < 20 || other.Usage.CPUMS > r.Usage.CPUMS/2 {
		t.Errorf("%d ms, and of a fork that did nothing %d", r.Usage.CPUMS, other.Usage.CPUMS)
	}
	var denied int64
	for _, v := range r.Violations {
		if v.What == "mount" {
			denied += v.Count
		}
	}
	if len(other.Violations) != 0 || denied != 0 && denied != 2 {
		t.Errorf("%+v, and of the fork %+v", r.Violations, other.Violations)
	}
}

// Who is killed leaves no process, and what it had on a disk goes with the next.
func TestKilledWhileForkingLeavesNothing(t *testing.T) {
	onLayers(t)
	exe := filepath.Join(t.TempDir(), "test")
	t.Setenv("TMPDIR", t.TempDir()) // a test that is killed leaves directories
	text, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(exe, text, 0o755)
	}
	must.Do(t, err)
	running := func() (n int) {
		all, _ := filepath.Glob("/proc/[0-9]*/exe")
		for _, name := range all {
			if at, _ := os.Readlink(name); at == exe {
				n++
			}
		}
		return n
	}
	for i := range 12 {
		cmd := exec.Command(exe, "-test.run", "TestForksWithoutEnd$")
		cmd.Env = append(os.Environ(), "PROCESS_ROLE=forks")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		must.Do(t, err)
		for b := make([]byte, 1); b[0] != '!'; {
			if _, err := out.Read(b); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Duration(i*7) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	time.Sleep(1100 * time.Millisecond) // what is new isn't taken for left
	for end := time.Now().Add(5 * time.Second); running() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d processes are left", running())
		}
	}
	box := sandboxOf(t, t.Context(), nil)
	snap, err := box.Snapshot(t.Context())
	if err == nil {
		err = snap.Close()
	}
	if err != nil {
		t.Error(err)
	}
	conformance.Close(t, box)
	left(t, descriptors(t))
}

func TestForksWithoutEnd(t *testing.T) {
	if os.Getenv("PROCESS_ROLE") != "forks" {
		t.SkipNow() // it is the other end of the test above
	}
	box := sandboxOf(t, t.Context(), nil)
	fmt.Println("!")
	for i := 0; ; i++ {
		sh(t, box, "head -c 1000000 /dev/urandom >/tmp/a")
		if i%2 == 1 {
			_, _ = box.Start(t.Context(), &backend.Exec{Argv: []string{"sleep", "1000"}})
		}
		f := forked(t, box)
		snap, err := f.Snapshot(t.Context())
		if err == nil {
			err = box.Restore(t.Context(), snap)
		}
		must.Do(t, err)
	}
}

// What was written to a root of the caller's, and what the run itself has in it, is there for the next, too.
func TestRootsOfTheCallersAreWrittenDown(t *testing.T) {
	onLayers(t)
	box := sandboxOf(t, t.Context(), func(s *backend.Spec) {
		root := t.TempDir()
		for _, dir := range []string{"usr", "etc", "opt/d", "tmp", "proc", "dev"} {
			must.Do(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
		}
		for _, name := range []string{"bin", "lib", "lib64"} {
			must.Do(t, os.Symlink("usr/"+name, filepath.Join(root, name)))
		}
		must.Do(t, os.WriteFile(filepath.Join(root, "opt/d/there"), []byte("x"), 0o644))
		s.Policy.Filesystem.Rootfs, s.Policy.Filesystem.Workdir = root, "none"
		s.Policy.Filesystem.Mounts = []config.Mount{{Src: "/usr", Dst: "/usr", Mode: "ro"}}
	})
	if got := says(t, box, "rm -r /opt/d && mkdir /opt/d && echo 1 >/opt/new && echo 2 >/tmp/new && cat /etc/hosts >/dev/null && echo ok"); got != "ok" {
		t.Fatalf("%q", got)
	}
	f := forked(t, box)
	snap, err := f.Snapshot(t.Context())
	must.Do(t, err)
	sh(t, f, "echo 3 >/opt/new")
	again := forked(t, f)
	must.Do(t, again.Restore(t.Context(), snap))
	for name, b := range map[string]struct {
		backend.Sandbox
		want string
	}{"the source": {box, "1"}, "a fork": {f, "3"}, "restored": {again, "1"}} {
		if got := says(t, b, "ls /opt/d; cat /opt/new /tmp/new; test -s /etc/hosts && echo hosts"); got != b.want+"\n2\nhosts" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if err := snap.Close(); err != nil {
		t.Error(err)
	}
}

// A run can begin with a snapshot, too.
func TestRunsBeginWithSnapshots(t *testing.T) {
	onLayers(t)
	before := descriptors(t)
	box := sandboxOf(t, t.Context(), nil)
	sh(t, box, "echo then >/tmp/a; echo there >new")
	snap, err := box.Snapshot(t.Context())
	must.Do(t, err)
	spec := *box.spec
	spec.From = snap
	for range 2 {
		var out strings.Builder
		p, err := backend.Run(t.Context(), Backend{}, &spec, &backend.Exec{Argv: []string{"sh", "-c", "cat /tmp/a new; echo now >/tmp/a; rm new"}, Stdout: &out})
		must.Do(t, err)
		if r := p.Wait(); r.Status != status.OK || out.String() != "then\nthere\n" || r.Changes == nil || len(r.Changes.Added) != 0 {
			t.Errorf("%s: %s, %q, %+v", r.Status, r.Reason, out.String(), r.Changes)
		}
	}
	_, err = box.Close()
	if err = errors.Join(err, snap.Close()); err != nil {
		t.Error(err)
	}
	if _, err := backend.Run(t.Context(), Backend{}, &spec, &backend.Exec{Argv: []string{"true"}}); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("begun with what was thrown away: %v", err)
	}
	left(t, before)
}
