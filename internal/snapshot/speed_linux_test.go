package snapshot

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"
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
	step := func(what string, do func()) { began := time.Now(); do(); t.Log(what, time.Since(began)) }
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
	var out bytes.Buffer
	step("export", func() { must(t, s.Export(t.Context(), id, &out)) })
	other := newStore(t)
	step("import", func() { _, err := other.Import(t.Context(), &out, Limits{}); must(t, err) })
	_ = io.Discard
}
