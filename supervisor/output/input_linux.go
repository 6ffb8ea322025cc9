package output

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// background is how often a terminal is looked at that isn't ours to read now.
const background = 300 * time.Millisecond

// Keys is whoever holds the caller's terminal while its keys go to a pty.
type Keys interface {
	// Foreground is called whenever confine finds itself in the terminal's foreground
	// after it wasn't.
	Foreground()
	// Wanted is asked before keys are read: whether they are for the pty.
	Wanted() bool
	// Typed is called with what is about to be passed on.
	Typed([]byte)
}

// Input relays something of the caller's to a pipe or pty of the target's.
type Input struct {
	src      int
	owned    bool // src is a second open of the caller's file, ours to close
	caller   int  // the caller's descriptor itself
	seekable bool
	terminal bool
	socket   bool
	// eager reads before it polls. A FIFO that is opened when its writer has
	// already left never polls as hung up; read tells the end.
	fifo, eager bool
	dst         int // ours
	hold        int // reading end of our pipe, to count what is left; -1: none

	buf  []byte
	pend []byte
	keyboard
	oneAhead  bool // dst is a pipe that is writable only when it is empty
	unread    bool // something may be left in it
	eof, done bool
	polled    [2]int
}

// keyboard is what there is to an input that goes to a pty.
type keyboard struct {
	keys    Keys // of a terminal that is read raw; nil: it is nobody's but the caller's
	wasFore bool
	pty     bool // dst is a master
	midLine bool // the last byte for the pty wasn't the end of a line
	last    bool // the source has ended once pend is written
}

// newInput owns dst from its success on.
func newInput(fd, dst int) (*Input, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(dst, true); err != nil {
		return nil, err
	}
	in := &Input{src: fd, caller: fd, dst: dst, hold: -1}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFBLK:
		in.seekable = true
	case unix.S_IFSOCK:
		in.socket = true
	case unix.S_IFIFO:
		in.reopen(unix.O_RDONLY)
		in.fifo, in.eager = in.owned, in.owned
	case unix.S_IFCHR:
		if in.terminal = linux.IsTerminal(fd); in.terminal {
			in.reopen(unix.O_RDONLY | unix.O_NOCTTY)
		}
	}
	return in, nil
}

// reopen makes reads return at once even where somebody else was faster.
// Where it is refused poll's answer has to do.
func (in *Input) reopen(mode int) {
	if fd, err := reopen(in.src, mode|unix.O_NONBLOCK); err == nil {
		in.src, in.owned = fd, true
	}
}

func (in *Input) ended() bool { return in.done }

func (in *Input) enter(set []unix.PollFd) (_ []unix.PollFd, again bool) {
	in.polled = [2]int{-1, -1}
	for range turn {
		if !in.eager || len(in.pend) > 0 || in.eof || in.done {
			break
		}
		in.fill()
	}
	if in.done {
		return set, false
	}
	out := unix.PollFd{Fd: int32(in.dst)}
	switch {
	case len(in.pend) > 0 || in.unread:
		out.Events = unix.POLLOUT
	case in.eof:
		return set, false
	case !in.mayRead():
		again = true
	default:
		in.polled[0] = len(set)
		set = append(set, unix.PollFd{Fd: int32(in.src), Events: unix.POLLIN})
	}
	in.polled[1] = len(set) // also for POLLERR: nobody reads it any more
	return append(set, out), again
}

// mayRead: a read from the background would stop the whole job, which did not ask for it.
// And while a terminal that we have not made raw ourselves isn't in line mode with echo,
// somebody else is reading it: a pager at the end of the pipeline its keys, sudo a password.
func (in *Input) mayRead() bool {
	if !in.terminal {
		return true
	}
	fore := linux.InForeground(in.src)
	if in.keys == nil {
		modes, err := unix.IoctlGetTermios(in.src, unix.TCGETS)
		return fore && err == nil && linux.LineMode(modes)
	}
	if fore && !in.wasFore {
		in.keys.Foreground()
	}
	in.wasFore = fore
	return fore && in.keys.Wanted()
}

func (in *Input) leave(set []unix.PollFd) {
	if i := in.polled[1]; i >= 0 && set[i].Revents != 0 {
		if set[i].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0 {
			in.end()
			return
		}
		in.unread = false
		in.flush()
	}
	// Its modes may have changed since, and what came may be for whoever changed them.
	if i := in.polled[0]; i >= 0 && set[i].Revents != 0 && in.mayRead() {
		in.fill()
	}
}

func (in *Input) fill() {
	if in.buf == nil {
		in.buf = make([]byte, bufSize)
	}
	n, err := in.read()
	switch {
	case err == unix.EINTR:
	case err == unix.EAGAIN:
		in.eager = false
	case err == unix.EIO && in.terminal && !in.mayRead(): // went to the background just now
	case err == nil && n == 0 && in.pty:
		in.endOfFile()
	case err != nil || n <= 0:
		in.finish()
	default:
		in.pend = in.buf[:n]
		in.eager = in.fifo
		in.midLine = in.buf[n-1] != '\n'
		if in.keys != nil {
			in.keys.Typed(in.pend)
		}
		in.flush()
	}
}

// endOfFile passes the end of the source on to a pty, where it is a character: one ends a
// line that was begun, the next is the end of file. A terminal in line mode can be read on
// after Ctrl-D, unless it was hung up.
func (in *Input) endOfFile() {
	t, err := unix.IoctlGetTermios(in.dst, unix.TCGETS)
	if err != nil {
		in.finish()
		return
	}
	end := t.Cc[unix.VEOF]
	in.pend = append(in.buf[:0], end)
	if in.midLine {
		in.pend = append(in.pend, end)
	}
	set := []unix.PollFd{{Fd: int32(in.src)}}
	_, err = unix.Poll(set, 0)
	in.last = !in.terminal || err != nil || set[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
	in.midLine, in.eager = false, false
	in.flush()
}

func (in *Input) read() (int, error) {
	if in.socket {
		n, _, err := unix.Recvfrom(in.src, in.buf, unix.MSG_DONTWAIT)
		return n, err
	}
	return unix.Read(in.src, in.buf)
}

func (in *Input) flush() {
	for len(in.pend) > 0 {
		n, err := linux.Again(func() (int, error) { return unix.Write(in.dst, in.pend) })
		if err == unix.EAGAIN {
			return
		}
		if err != nil { // nobody reads any more
			in.end()
			return
		}
		in.pend = in.pend[n:]
		in.unread = in.oneAhead
	}
	if in.last {
		in.finish()
	}
}

// finish: the source has ended. Only counting what is left may remain to be done.
func (in *Input) finish() {
	in.eof = true
	unix.Close(in.dst)
	in.dst = -1
	if in.hold < 0 {
		in.end()
	}
}

// end stops the relay and gives back what the target didn't take.
func (in *Input) end() {
	if in.done {
		return
	}
	in.done = true
	if in.seekable && in.hold >= 0 {
		left, err := unix.IoctlGetInt(in.hold, unix.TIOCINQ)
		if left += len(in.pend); err == nil && left > 0 {
			unix.Seek(in.caller, int64(-left), unix.SEEK_CUR)
		}
	}
	in.pend = nil
	for _, fd := range []*int{&in.dst, &in.hold} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
	if in.owned {
		unix.Close(in.src)
	}
}
