// Package poll passes small messages on between pairs of sockets, all in one thread.
//
// A goroutine that waits for a socket of package net is woken by the runtime's poller. For a byte that costs more than
// moving it: the thread that polls finds itself a processor, wakes the runtime's monitor, which sets itself a timer and goes to
// sleep again, and the goroutine reads once more, in vain, before it waits. Here one thread waits for all sockets in
// epoll_wait(2), reads, writes, and waits again.
//
// It never waits for anything else. What would need that, or is no small message (the end of a stream, an error, a full
// buffer, a peer that takes no more), ends the pair: the sockets go back to who gave them, who has goroutines for it.
//
// The sockets must not be known to the runtime's poller, or it would be woken, too.
package poll

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Size is what is read at once: a message that is smaller is small.
const Size = 32 << 10

// Pair is two sockets that don't block. They stay the caller's.
type Pair struct {
	Sockets [2]int
	Passed  [2]*atomic.Int64  // counts what came from each and was sent on
	Spend   func(n int) error // is asked before n bytes are sent on

	// How it ended, by what came from one of the sockets.
	From int
	Rest []byte // what was read and is not sent yet
	Full bool   // a buffer was filled
	Err  error

	done  chan struct{}
	ended bool
}

// Poller passes on messages. The zero one is ready, and takes nothing until it has a pair.
type Poller struct {
	mu    sync.Mutex // held while messages are passed on
	epoll int        // 0: there is none
	wake  int        // an eventfd, which ends it
	pairs map[int32]*Pair

	look
}

// Pass passes messages on until something else comes, or End is called. Where it fails, nothing was passed on.
func (p *Poller) Pass(l *Pair) error {
	if err := p.add(l); err != nil {
		return err
	}
	<-l.done
	return nil
}

// End gives a pair's sockets back, or else keeps it from being taken.
func (p *Poller) End(l *Pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(l)
}

func (p *Poller) add(l *Pair) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.ended {
		return unix.ECANCELED
	}
	if p.epoll == 0 {
		if err := p.start(); err != nil {
			return err
		}
	}
	l.done = make(chan struct{})
	for _, fd := range l.Sockets {
		if err := p.control(unix.EPOLL_CTL_ADD, fd); err != nil {
			p.remove(l)
			return err
		}
		p.pairs[int32(fd)] = l
	}
	return nil
}

// remove ends a pair. The lock is held.
func (p *Poller) remove(l *Pair) {
	for _, fd := range l.Sockets {
		if p.pairs[int32(fd)] == l {
			delete(p.pairs, int32(fd))
			_ = p.control(unix.EPOLL_CTL_DEL, fd)
		}
	}
	if l.done != nil && !l.ended {
		close(l.done)
	}
	l.ended = true
}

func (p *Poller) control(op, fd int) error {
	return unix.EpollCtl(p.epoll, op, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

func (p *Poller) start() (err error) {
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		p.epoll = 0
		return err
	}
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
		err = p.control(unix.EPOLL_CTL_ADD, p.wake)
	}
	if err != nil {
		_ = unix.Close(p.wake)
		_ = unix.Close(p.epoll)
		p.epoll = 0
		return err
	}
	p.pairs = map[int32]*Pair{}
	go p.run()
	return nil
}

// Close ends the poller, once all pairs have ended.
func (p *Poller) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoll != 0 {
		_, _ = unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

func (p *Poller) run() {
	events, buf := make([]unix.EpollEvent, 64), make([]byte, Size)
	for {
		n := p.wait(p.epoll, events)
		p.mu.Lock()
		for _, e := range events[:n] {
			if int(e.Fd) == p.wake {
				_ = unix.Close(p.wake)
				_ = unix.Close(p.epoll)
				p.epoll = 0
				p.mu.Unlock()
				return
			}
			if l := p.pairs[e.Fd]; l != nil && !l.move(int(e.Fd), buf) {
				p.remove(l)
			}
		}
		p.mu.Unlock()
	}
}

// move passes one message on. It is false if the pair has to end.
func (l *Pair) move(fd int, buf []byte) bool {
	from := 0
	if fd == l.Sockets[1] {
		from = 1
	}
	n, err := unix.Read(fd, buf)
	if err == unix.EAGAIN || err == unix.EINTR {
		return true
	}
	l.From, l.Err = from, err
	if n > 0 && err == nil {
		l.Err = l.Spend(n)
	}
	if l.Err != nil {
		return false
	}
	if n == 0 { // whoever reads again finds the end again
		return false
	}
	sent, err := unix.Write(l.Sockets[1-from], buf[:n])
	sent = max(sent, 0)
	l.Passed[from].Add(int64(sent))
	switch {
	case err != nil && err != unix.EAGAIN && err != unix.EINTR:
		l.Err = err
	case sent < n:
		l.Rest = bytes.Clone(buf[sent:n])
	default:
		l.Full = n == len(buf)
		return !l.Full
	}
	return false
}

// look decides whether to look for messages for a while before sleeping. To be woken on a processor that sleeps can cost
// more than all the rest of a round trip. But who looks takes a processor from those that the message has to come from, if
// they have no other, or from others: so it is done only as long as messages come quicker by it, which is tried now and then.
type look struct {
	way   int              // asleep, or looking
	n     int              // messages since
	began time.Time        // this stretch of them
	took  [2]time.Duration // the last stretch each way
	left  int              // stretches until the two are compared; the last is for the other way
}

const (
	asleep = iota
	looking
)

const (
	lookFor   = 50 * time.Microsecond
	stretch   = 32
	stretches = 128
	slow      = stretch * 100 * time.Microsecond // nobody waits for us, or for long
)

// wait gives at least one event, except after an interruption.
func (w *look) wait(epoll int, events []unix.EpollEvent) int {
	if w.way == looking {
		for began := time.Now(); time.Since(began) < lookFor; {
			if n, err := unix.EpollWait(epoll, events, 0); err == nil && n > 0 {
				w.learn(n, time.Now())
				return n
			}
		}
	}
	n, err := unix.EpollWait(epoll, events, -1)
	if err != nil && err != unix.EINTR {
		panic("epoll_wait: " + err.Error()) // somebody has closed a descriptor that isn't theirs
	}
	n = max(n, 0)
	w.learn(n, time.Now())
	return n
}

// learn counts messages. With each stretch of them it says how the next are waited for.
func (w *look) learn(messages int, now time.Time) {
	if w.n += messages; w.n < stretch {
		return
	}
	w.took[w.way] = now.Sub(w.began)
	w.n, w.began = 0, now
	w.left--
	switch {
	case w.took[w.way] > slow || runtime.GOMAXPROCS(0) == 1:
		w.way, w.left = asleep, 2
	case w.left == 1:
		w.way = asleep + looking - w.way
	case w.left <= 0:
		w.way, w.left = asleep, stretches
		if w.took[looking] < w.took[asleep]*3/4 {
			w.way = looking
		}
	}
}
