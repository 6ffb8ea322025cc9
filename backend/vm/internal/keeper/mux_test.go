package keeper

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

func TestChunksGetToTheirChannels(t *testing.T) {
	var b, guest bytes.Buffer
	m := NewMux(&b)
	long := bytes.Repeat([]byte("x"), 2*MaxChunk+1)
	if _, err := m.To(Guest).Write(long); err != nil {
		t.Fatal(err)
	}
	must.Do(t, m.Send(Orders, []byte("order")))
	order := ""
	err := Split(&b, func(data []byte) error { guest.Write(data); return nil }, func(data []byte) error { order += string(data); return nil })
	if err != io.EOF || !bytes.Equal(guest.Bytes(), long) || order != "order" {
		t.Errorf("%v, %d bytes, %q", err, guest.Len(), order)
	}
	for name, text := range map[string][]byte{"a long chunk": {0xff, 0xff, 0xff, 0xff, 0}, "a channel that there isn't": {0, 0, 0, 0, 2}} {
		if err := Split(bytes.NewReader(text), func([]byte) error { return nil }, func([]byte) error { return nil }); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 'x', 0, 0, 0, 2, 1, '{', '}'})
	f.Add([]byte{0, 1, 0, 1, 0})
	f.Add([]byte{0, 0, 0, 0, 0xff})
	f.Fuzz(func(t *testing.T, text []byte) {
		got := 0
		count := func(data []byte) error {
			if got += 5 + len(data); len(data) > MaxChunk {
				t.Errorf("%d bytes at once", len(data))
			}
			return nil
		}
		if err := Split(bytes.NewReader(text), count, count); err == nil || got > len(text) {
			t.Errorf("%d bytes of %d, %v", got, len(text), err)
		}
	})
}
