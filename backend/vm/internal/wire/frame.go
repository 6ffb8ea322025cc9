package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Kind says what a frame is.
type Kind byte

// The kinds. What is about a process has its number.
const (
	Hello   Kind = iota + 1 // the guest's first
	Call                    // a Request; the number is the call's
	Reply                   // the Answer to the call of that number
	Stdin                   // bytes; none is the end
	Stdout                  // bytes
	Stderr                  // bytes
	Taken                   // a Credit
	Event                   // a backend.Event
	End                     // an Ended
	Resume                  // a Wake; the number is a call's
	Resumed                 // the answer to it: the number that was left in the memory; an error comes as a Reply
	kinds
)

const (
	// MaxData is the most that a frame has of a stream.
	MaxData = 32 << 10
	// MaxMessage is the longest message.
	MaxMessage = 1 << 20
	// MaxReply is the longest answer, which is asked for.
	MaxReply = 8 << 20
	// Window is how much of a stream may be on its way.
	Window = 256 << 10
)

const headerSize = 9

// Frame is one thing that is said.
type Frame struct {
	Kind Kind
	ID   uint32
	Data []byte
}

// ErrProtocol is behind whatever the other side may not say.
var ErrProtocol = errors.New("broke the protocol")

// Broken is an ErrProtocol.
func Broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// limit is how long a frame of that kind may be.
func (k Kind) limit() uint32 {
	switch k {
	case Stdin, Stdout, Stderr:
		return MaxData
	case Reply:
		return MaxReply
	}
	return MaxMessage
}

// Read reads a frame. Nothing is allocated for one that is too long.
func Read(r io.Reader) (Frame, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Kind: Kind(header[0]), ID: binary.BigEndian.Uint32(header[1:])}
	if f.Kind == 0 || f.Kind >= kinds {
		return Frame{}, Broken("a frame of kind %d", f.Kind)
	}
	n := binary.BigEndian.Uint32(header[5:])
	if n > f.Kind.limit() {
		return Frame{}, Broken("a frame of kind %d of %d bytes", f.Kind, n)
	}
	f.Data = make([]byte, n)
	if _, err := io.ReadFull(r, f.Data); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	return f, nil
}

// Writer writes frames, from any goroutine.
type Writer struct {
	mu        sync.Mutex
	w         io.Writer
	abandoned bool
}

// NewWriter writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// ErrTooLong is a frame that the other side would not take.
var ErrTooLong = errors.New("it is too long to be told")

// Send writes a frame.
func (w *Writer) Send(k Kind, id uint32, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.send(k, id, data)
}

func (w *Writer) send(k Kind, id uint32, data []byte) error {
	if uint64(len(data)) > uint64(k.limit()) {
		return ErrTooLong
	}
	frame := make([]byte, headerSize, headerSize+len(data))
	frame[0] = byte(k)
	binary.BigEndian.PutUint32(frame[1:], id)
	binary.BigEndian.PutUint32(frame[5:], uint32(len(data)))
	frame = append(frame, data...)
	if w.abandoned {
		return nil
	}
	_, err := w.w.Write(frame)
	return err
}

// Hold writes a frame with a message, and has everybody else wait until the Held goes on or is abandoned. With an error nobody waits.
func (w *Writer) Hold(k Kind, id uint32, message any) (*Held, error) {
	data, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	if err := w.send(k, id, data); err != nil {
		w.mu.Unlock()
		return nil, err
	}
	return &Held{w}, nil
}

// Held is a Writer that nobody else writes to.
type Held struct{ w *Writer }

// Resume writes a frame, and has everybody write again.
func (h *Held) Resume(id uint32, w *Wake) error {
	defer h.Release()
	return h.w.send(Resume, id, w.Data())
}

// Release has everybody write again.
func (h *Held) Release() { h.w.mu.Unlock() }

// Abandon has nobody write any more: what they write is dropped.
func (h *Held) Abandon() {
	h.w.abandoned = true
	h.w.mu.Unlock()
}

// SendMessage writes a frame with a message.
func (w *Writer) SendMessage(k Kind, id uint32, message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return w.Send(k, id, data)
}

// Message reads what SendMessage wrote.
func (f *Frame) Message(to any) error {
	if err := json.Unmarshal(f.Data, to); err != nil {
		return Broken("a message of kind %d that is none: %v", f.Kind, err)
	}
	return nil
}

// Wake is how a machine goes on that was written down. It is coded by hand: on emulated CPUs a restore takes as long as its code is, and that of
// encoding/json is long.
type Wake struct {
	// Other: it is another machine than the one that was, or the same at another time. Whoever was connected to its processes isn't any more.
	Other bool
	Now   int64  // nanoseconds since 1970
	Seed  []byte // for its random numbers
}

// Data is what a frame has of it.
func (w *Wake) Data() []byte {
	if !w.Other {
		return nil
	}
	return append(binary.BigEndian.AppendUint64(nil, uint64(w.Now)), w.Seed...)
}

// Wake is what Data made of one.
func (f *Frame) Wake() (*Wake, error) {
	if len(f.Data) == 0 {
		return &Wake{}, nil
	}
	if len(f.Data) < 8 {
		return nil, Broken("a wake of %d bytes", len(f.Data))
	}
	return &Wake{Other: true, Now: int64(binary.BigEndian.Uint64(f.Data)), Seed: f.Data[8:]}, nil
}
