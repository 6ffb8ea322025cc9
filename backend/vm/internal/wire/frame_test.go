package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

func TestFramesAreReadAsTheyWereWritten(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	for i, data := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("y"), MaxData)} {
		must.Do(t, w.Send(Stdout, uint32(i), data))
		f, err := Read(&b)
		if err != nil || f.Kind != Stdout || f.ID != uint32(i) || !bytes.Equal(f.Data, data) {
			t.Errorf("%d: %+v, %v", i, f, err)
		}
	}
	if err := w.Send(Stdout, 0, make([]byte, MaxData+1)); !errors.Is(err, ErrTooLong) || b.Len() > 0 {
		t.Errorf("too long: %v, and %d bytes of it", err, b.Len())
	}
}

func header(kind byte, n uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kind, 0, 0, 0, 1}, n)
}

func TestWhatIsNoFrameIsRefusedBeforeItIsRead(t *testing.T) {
	for name, text := range map[string][]byte{
		"kind 0": header(0, 0), "a kind that there isn't": header(byte(kinds), 0), "a long stream": header(byte(Stdout), MaxData+1),
		"a long message": header(byte(Event), MaxMessage+1), "a long answer": header(byte(Reply), MaxReply+1), "all there is": header(byte(End), 1<<32-1),
	} {
		if _, err := Read(bytes.NewReader(text)); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read(bytes.NewReader(header(byte(Stdout), 5))); err != io.ErrUnexpectedEOF {
		t.Errorf("half a frame: %v", err)
	}
}

func TestAStreamHasNoMoreThanItsWindow(t *testing.T) {
	taken := 0
	in := NewInflow(func(n int) { taken += n })
	must.Do(t, in.Put(make([]byte, Window)))
	if err := in.Put([]byte("x")); !errors.Is(err, ErrProtocol) {
		t.Errorf("more than the window: %v", err)
	}
	n, err := io.ReadFull(in, make([]byte, Window))
	if n != Window || err != nil || taken != Window {
		t.Errorf("%d, %v, %d taken", n, err, taken)
	}
	in.Close(nil)
	if _, err := in.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("at its end: %v", err)
	}
	if err := in.Put(nil); !errors.Is(err, ErrProtocol) {
		t.Errorf("after its end: %v", err)
	}
	sent := make(chan int, Window)
	out := NewOutflow(func(data []byte) error { sent <- len(data); return nil })
	done := make(chan error, 1)
	go func() {
		_, err := out.Write(make([]byte, Window+1))
		done <- err
	}()
	for total := 0; total < Window; total += <-sent {
	}
	select {
	case err := <-done:
		t.Fatalf("it was written past its window: %v", err)
	default:
	}
	if err := out.Taken(Window + 1); !errors.Is(err, ErrProtocol) {
		t.Errorf("more was taken than sent: %v", err)
	}
	if err := out.Taken(1); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	out.Close(io.ErrClosedPipe)
	if _, err := out.Write([]byte("x")); err != io.ErrClosedPipe {
		t.Errorf("after its end: %v", err)
	}
}

func TestAWakeIsReadAsItWasWritten(t *testing.T) {
	for _, w := range []Wake{{}, {Other: true, Now: -5}, {Other: true, Now: 1 << 60, Seed: []byte("seed")}} {
		f := Frame{Kind: Resume, Data: w.Data()}
		got, err := f.Wake()
		if err != nil || got.Other != w.Other || got.Now != w.Now || !bytes.Equal(got.Seed, w.Seed) {
			t.Errorf("%+v, %v of %+v", got, err, w)
		}
	}
	if _, err := (&Frame{Kind: Resume, Data: make([]byte, 7)}).Wake(); !errors.Is(err, ErrProtocol) {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(header(byte(Stdout), 0))
	f.Add(append(header(byte(Reply), 2), "{}"...))
	f.Fuzz(func(t *testing.T, text []byte) {
		from := bytes.NewReader(text)
		for {
			f, err := Read(from)
			if err != nil {
				return
			}
			if uint32(len(f.Data)) > f.Kind.limit() || len(f.Data) > len(text) {
				t.Fatalf("%d bytes of %d", len(f.Data), len(text))
			}
		}
	})
}
