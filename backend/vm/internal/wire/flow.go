package wire

import (
	"io"
	"sync"
)

// Inflow is what came of a stream and wasn't read yet: Window bytes at most.
type Inflow struct {
	mu     sync.Mutex
	wake   sync.Cond
	data   []byte
	closed bool
	err    error
	taken  func(n int)
}

// NewInflow calls taken with how much was read, each time.
func NewInflow(taken func(n int)) *Inflow {
	i := &Inflow{taken: taken}
	i.wake.L = &i.mu
	return i
}

// Put adds what came. More than there is room for is an ErrProtocol, and so is anything after the end.
func (i *Inflow) Put(data []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.closed:
		return Broken("more of a stream that has ended")
	case len(i.data)+len(data) > Window:
		return Broken("more of a stream than was asked for")
	}
	i.data = append(i.data, data...)
	i.wake.Broadcast()
	return nil
}

// Close is the end of the stream; what came can be read, and then there is io.EOF, or err.
func (i *Inflow) Close(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		i.closed, i.err = true, err
	}
	i.wake.Broadcast()
}

// Read waits for something.
func (i *Inflow) Read(p []byte) (int, error) {
	i.mu.Lock()
	for len(i.data) == 0 && !i.closed {
		i.wake.Wait()
	}
	n := copy(p, i.data)
	i.data = i.data[n:]
	if len(i.data) == 0 {
		i.data = nil
	}
	err := i.err
	i.mu.Unlock()
	if n > 0 {
		i.taken(n)
		return n, nil
	}
	if err == nil {
		err = io.EOF
	}
	return 0, err
}

// Outflow sends a stream, as fast as the other side takes it.
type Outflow struct {
	mu     sync.Mutex
	wake   sync.Cond
	sent   int // and not taken
	closed error
	nobody bool // reads it: what is written is dropped
	send   func(data []byte) error
}

// NewOutflow sends by send.
func NewOutflow(send func(data []byte) error) *Outflow {
	o := &Outflow{send: send}
	o.wake.L = &o.mu
	return o
}

// Taken says that the other side took n bytes.
func (o *Outflow) Taken(n int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n < 0 || n > o.sent {
		return Broken("it took %d bytes of %d", n, o.sent)
	}
	o.sent -= n
	o.wake.Broadcast()
	return nil
}

// Discard has what is written from now on dropped.
func (o *Outflow) Discard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.nobody = true
	o.wake.Broadcast()
}

// Close has writes fail from now on.
func (o *Outflow) Close(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed == nil {
		o.closed = err
	}
	o.wake.Broadcast()
}

func (o *Outflow) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		o.mu.Lock()
		for o.sent >= Window && o.closed == nil && !o.nobody {
			o.wake.Wait()
		}
		if o.nobody && o.closed == nil {
			o.mu.Unlock()
			return len(p), nil
		}
		n := min(len(p)-done, Window-o.sent, MaxData)
		err := o.closed
		if err == nil {
			o.sent += n
		}
		o.mu.Unlock()
		if err == nil {
			err = o.send(p[done : done+n])
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}
