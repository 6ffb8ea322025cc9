package keeper

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// Channel is what a chunk belongs to.
type Channel byte

// The channels between the host and the keeper.
const (
	Guest  Channel = iota // the guest's protocol
	Orders                // an Order or an Answer in each chunk
)

// MaxChunk is how long one is at most.
const MaxChunk = 64 << 10

// Mux writes chunks, from any goroutine.
type Mux struct {
	mu sync.Mutex
	w  io.Writer
}

// NewMux writes to w.
func NewMux(w io.Writer) *Mux { return &Mux{w: w} }

// Send writes to a channel, in one chunk if that is short enough.
func (m *Mux) Send(c Channel, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(data) > 0 {
		n := min(len(data), MaxChunk)
		chunk := binary.BigEndian.AppendUint32(make([]byte, 0, 5+n), uint32(n))
		chunk = append(append(chunk, byte(c)), data[:n]...)
		if _, err := m.w.Write(chunk); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// To is a channel as a writer.
func (m *Mux) To(c Channel) io.Writer { return channel{m, c} }

type channel struct {
	m *Mux
	c Channel
}

func (c channel) Write(p []byte) (int, error) {
	if err := c.m.Send(c.c, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Split gives each chunk to the function of its channel, until the stream or one of them has an error.
func Split(r io.Reader, to ...func(data []byte) error) error {
	b := make([]byte, MaxChunk)
	for {
		var header [5]byte
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return err
		}
		n, c := binary.BigEndian.Uint32(header[:]), int(header[4])
		if n > MaxChunk || c >= len(to) {
			return fmt.Errorf("a chunk of %d bytes for channel %d", n, c)
		}
		if _, err := io.ReadFull(r, b[:n]); err != nil {
			return err
		}
		if err := to[c](b[:n]); err != nil {
			return err
		}
	}
}
