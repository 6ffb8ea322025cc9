package process

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
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
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			b.Fatal(err)
		}
		forks = append(forks, time.Since(began))
		began = time.Now()
		g, err := box.Fork(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		clean = append(clean, time.Since(began))
		began = time.Now()
		_, _ = f.Close()
		closes = append(closes, time.Since(began))
		_, _ = g.Close()
		began = time.Now()
		o, _, err := backend.Open(b.Context(), Backend{}, box.spec)
		if err != nil {
			b.Fatal(err)
		}
		opens = append(opens, time.Since(began))
		_, _ = o.Close()
	}
	for _, all := range [][]time.Duration{forks, clean, closes, opens} {
		slices.Sort(all)
	}
	b.Logf("fork: p50 %v, p95 %v; again, with nothing written since: p50 %v; closed: p50 %v; an empty one opened: p50 %v", forks[10], forks[18], clean[10], closes[10], opens[10])
	began := time.Now()
	snap, err := box.Snapshot(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("snapshot: %v", time.Since(began))
	began = time.Now()
	if err := box.Restore(b.Context(), snap); err != nil {
		b.Fatal(err)
	}
	b.Logf("restore, unpacked for the first time: %v", time.Since(began))
	began = time.Now()
	if err := box.Restore(b.Context(), snap); err != nil {
		b.Fatal(err)
	}
	b.Logf("restore again: %v", time.Since(began))
	if r := sh(b, box, "test $(cat /tmp/? | wc -c) = 1073741824"); r.Status != status.OK {
		b.Fatal(r.Status, r.Reason)
	}
}
