package top

import (
	"bytes"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/term"
)

// What a terminal is told: another screen without a cursor, on which long lines are cut and not folded; and back.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	goHome      = "\x1b[H"
	clearRight  = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// screen is the caller's terminal, as long as this program has it.
type screen struct {
	in, out *os.File
	before  *term.State
	once    sync.Once
}

// open takes the terminal: keys come at once and are not echoed.
func open(in, out *os.File) (*screen, error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	s := &screen{in: in, out: out, before: before}
	held.Store(s)
	if _, err := out.WriteString(enterScreen); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// held is the screen that is open, for guard; nil: none.
var held atomic.Pointer[screen]

// guard is deferred in every goroutine: one that panics ends the program, and nobody else's deferred calls are made.
func guard() {
	if r := recover(); r != nil {
		if s := held.Load(); s != nil {
			s.close()
		}
		panic(r)
	}
}

// close gives the terminal back as it was. It may be called again.
func (s *screen) close() {
	s.once.Do(func() {
		_, _ = s.out.WriteString(leaveScreen)
		_ = term.Restore(int(s.in.Fd()), s.before)
	})
}

// draw shows a picture, as much of it as there is room for.
func (s *screen) draw(p *Picture) error {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width < 1 || height < 1 {
		width, height = 80, 24
	}
	var b bytes.Buffer
	b.WriteString(goHome)
	for i, line := range p.lines(width, height) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + clearRight)
	}
	b.WriteString(clearBelow)
	_, err = s.out.Write(b.Bytes()) // at once: nothing is seen half drawn
	return err
}

// keys gives what is typed, until the terminal is gone.
func (s *screen) keys() <-chan byte {
	typed := make(chan byte)
	go func() {
		defer guard()
		defer close(typed)
		b := make([]byte, 64)
		for {
			n, err := s.in.Read(b)
			for _, k := range b[:n] {
				typed <- k
			}
			if err != nil {
				return
			}
		}
	}()
	return typed
}
