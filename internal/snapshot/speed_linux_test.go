package snapshot

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSpeedByHand(t *testing.T) {
	if os.Getenv("SNAPSHOT_SPEED") == "" {
		t.Skip("by hand")
	}
	dir, err := os.MkdirTemp("/dev/shm", "snapshot")
	must(t, err)
	defer os.RemoveAll(dir)
	b := make([]byte, 64<<20)
	r := rand.NewChaCha8([32]byte{})
	for i := range 16 {
		_, _ = r.Read(b)
		must(t, os.WriteFile(dir+"/"+string(rune('a'+i)), b, 0o644))
	}
	s := newStore(t)
	step := func(what string, do func()) {
		began := time.Now()
		var a, b unix.Rusage
		must(t, unix.Getrusage(unix.RUSAGE_SELF, &a))
		do()
		must(t, unix.Getrusage(unix.RUSAGE_SELF, &b))
		t.Log(what, time.Since(began), time.Duration(b.Utime.Nano()-a.Utime.Nano()), time.Duration(b.Stime.Nano()-a.Stime.Nano()))
	}
	var id string
	step("extents", func() {
		for i := range 16 {
			f, _ := os.Open(dir + "/" + string(rune('a'+i)))
			_, err := extents(t.Context(), int(f.Fd()), 64<<20)
			must(t, err)
			f.Close()
		}
	})
	step("add", func() { id = add(t, s, "", Place{"/work", openedDir(t, dir)}) })
	step("trees", func() { trees(t, s, id) })
	step("trees again", func() { trees(t, s, id) })
	out := bytes.NewBuffer(make([]byte, 0, 1100<<20))
	step("export", func() { must(t, s.Export(t.Context(), id, out)) })
	other := newStore(t)
	step("import", func() { _, err := other.Import(t.Context(), out, Limits{}); must(t, err) })
}
