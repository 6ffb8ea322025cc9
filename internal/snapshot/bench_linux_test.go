package snapshot

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// bulk is a place with 256 MiB that can't be compressed.
func bulk(b *testing.B) (p Place, size int64) {
	b.Helper()
	const files, each = 16, 16 << 20
	dir, err := os.MkdirTemp("/dev/shm", "snapshot")
	must(b, err)
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	text := make([]byte, each)
	r := rand.NewChaCha8([32]byte{})
	for i := range files {
		_, _ = r.Read(text)
		must(b, os.WriteFile(dir+"/"+string(rune('a'+i)), text, 0o644))
	}
	return Place{"/work", openedDir(b, dir)}, files * each
}

func BenchmarkAdd(b *testing.B) {
	p, size := bulk(b)
	s := newStore(b)
	b.SetBytes(size)
	for i := 0; b.Loop(); i++ {
		_, err := s.Add(b.Context(), Meta{Created: someTime.Add(time.Duration(i))}, []Place{p})
		must(b, err)
	}
}

func BenchmarkTrees(b *testing.B) {
	p, size := bulk(b)
	s := newStore(b)
	id := add(b, s, "", p)
	b.SetBytes(size)
	for b.Loop() {
		all, err := s.Trees(b.Context(), id)
		must(b, err)
		CloseTrees(all)
		b.StopTimer()
		wipe(b, all[0].Path)
		b.StartTimer()
	}
}

func BenchmarkTreesThatAreThere(b *testing.B) {
	s := newStore(b)
	id := add(b, s, "", Place{"/work", openedDir(b, b.TempDir())})
	for b.Loop() {
		all, err := s.Trees(b.Context(), id)
		must(b, err)
		CloseTrees(all)
	}
}

func BenchmarkImport(b *testing.B) {
	p, size := bulk(b)
	s := newStore(b)
	id := add(b, s, "", p)
	var bundle bytes.Buffer
	must(b, s.Export(b.Context(), id, &bundle))
	b.SetBytes(size)
	for b.Loop() {
		b.StopTimer()
		must(b, s.Remove(id))
		b.StartTimer()
		_, err := s.Import(b.Context(), bytes.NewReader(bundle.Bytes()), Limits{})
		must(b, err)
	}
}

func BenchmarkExport(b *testing.B) {
	p, size := bulk(b)
	s := newStore(b)
	id := add(b, s, "", p)
	b.SetBytes(size)
	for b.Loop() {
		must(b, s.Export(b.Context(), id, io.Discard))
	}
}
