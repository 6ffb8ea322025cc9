package output

import (
	"os"

	"golang.org/x/sys/unix"
)

// teeMax is the most that our pipe is made to hold: half of what the caller's
// holds when it is at its largest, so that its writer goes on while the target reads.
const teeMax = pipeSize / 2

// Tee relays a pipe of the caller's and leaves in it whatever the target hasn't
// read: tee(2) puts references to its first bytes into a pipe of ours, and they
// are taken out of the caller's only when the target has taken them out of ours.
//
//	the caller's pipe: [ teed │ not yet teed ]
//	our pipe:          [ left ]                 read = teed − left
//
// tee always begins at the first byte, so there is nothing more to be done until
// the target has read; and poll tells that only of a pipe that is full: it
// becomes writable with the first free slot. Our pipe is therefore always made
// just so small that what can be teed fills it. Most of the time one slot does,
// and then writable means empty. When the target has emptied all slots at once
// there will be twice as many next time; when it has not, the rest is taken back,
// and half as many teed anew.
type Tee struct {
	src  int // the caller's; nothing about it is changed
	dst  int // writing end of our pipe, which the target reads
	hold int // reading end of it, to count what is left and to take it back
	null int
	page int

	teed  int64 // how many of the first bytes of src were put into our pipe; 0: waiting for src
	slots int   // of our pipe; 0: not known
	most  int   // slots that the target may be given
	limit int   // slots that the kernel allows
	big   bool  // src was enlarged, or can't be

	first  bool // not looked at yet; a FIFO without a writer may never poll
	done   bool
	polled int
}

// newTee owns w, and keeps a copy of r, from its success on. It fails where
// the kernel, or a filter around us, doesn't do what is needed.
func newTee(fd, r, w int) (*Tee, error) {
	t := &Tee{src: fd, dst: w, page: os.Getpagesize(), most: 1, first: true}
	t.limit = max(teeMax/t.page, 1)
	if _, err := unix.FcntlInt(uintptr(w), unix.F_SETPIPE_SZ, t.page); err != nil {
		return nil, err
	}
	t.slots = 1
	if _, err := tee(fd, w, 0); err != nil {
		return nil, err
	}
	null, err := unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if _, err = splice(fd, null, 0); err == nil {
		t.hold, err = unix.FcntlInt(uintptr(r), unix.F_DUPFD_CLOEXEC, 3)
	}
	if err != nil {
		unix.Close(null)
		return nil, err
	}
	t.null = null
	return t, nil
}

func (t *Tee) ended() bool { return t.done }

// enter adds to the poll set the one side that has to move now. The other is
// left out: poll would report its hang-up over and over.
func (t *Tee) enter(set []unix.PollFd) (_ []unix.PollFd, again bool) {
	t.polled = -1
	if t.first {
		t.first = false
		t.step()
	}
	if t.done {
		return set, false
	}
	wait := unix.PollFd{Fd: int32(t.src), Events: unix.POLLIN}
	if t.teed > 0 {
		wait = unix.PollFd{Fd: int32(t.dst), Events: unix.POLLOUT}
	}
	t.polled = len(set)
	return append(set, wait), false
}

func (t *Tee) leave(set []unix.PollFd) {
	if t.polled >= 0 && set[t.polled].Revents != 0 {
		t.step()
	}
}

// step takes out of the caller's pipe what the target has read, and tees what follows.
func (t *Tee) step() {
	t.takeBack()
	t.fit()
	n, err := tee(t.src, t.dst, pipeSize)
	switch {
	case err == unix.EAGAIN: // somebody else was faster
	case err != nil || n == 0: // at its end, with everything read, or closed
		t.end()
	default:
		t.teed = n
	}
}

// takeBack makes our pipe empty and the caller's begin at what wasn't read.
func (t *Tee) takeBack() {
	left := unread(t.hold)
	switch {
	case left > 0:
		// As much as there was: the target can write there too, and for ever.
		left = discard(t.hold, t.null, left)
		t.most = max(t.slots/2, 1)
		t.slots = 0 // whoever reads a pipe can change its size, too
	case t.teed > 0:
		t.most = min(t.most*2, t.limit)
	}
	t.consume(left)
}

// consume takes out of the caller's pipe all that was teed but what is left.
func (t *Tee) consume(left int64) {
	if read := t.teed - left; read > 0 {
		discard(t.src, t.null, read)
	}
	t.teed = 0
}

// fit gives our pipe as many slots as what is in the caller's surely fills: no
// slot holds more than a page, but for what came from a socket, and then there
// is one more turn for each halving.
func (t *Tee) fit() {
	full := int(unread(t.src)) / t.page
	slots := 1
	for slots*2 <= min(full, t.most) {
		slots *= 2
	}
	if slots == t.slots {
		return
	}
	if slots >= 16 && !t.big {
		t.big = true
		enlargePipe(t.src)
	}
	t.slots = slots
	if _, err := unix.FcntlInt(uintptr(t.dst), unix.F_SETPIPE_SZ, slots*t.page); err != nil {
		// EPERM: the user's share of memory for pipes is used up.
		t.slots, t.limit, t.most = 1, 1, 1
		unix.FcntlInt(uintptr(t.dst), unix.F_SETPIPE_SZ, t.page)
	}
}

// end stops the relay. What the target didn't read stays with the caller.
func (t *Tee) end() {
	if t.done {
		return
	}
	t.done = true
	t.consume(unread(t.hold))
	for _, fd := range []int{t.dst, t.hold, t.null} {
		unix.Close(fd)
	}
}

// unread is how many bytes are in a pipe.
func unread(fd int) int64 {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return int64(n)
}

// discard takes up to n bytes out of a pipe, without waiting for them.
func discard(pipe, null int, n int64) int64 {
	n, _ = splice(pipe, null, int(n))
	return n
}

// tee is splice that leaves everything in src.
func tee(src, dst, n int) (int64, error) {
	for {
		m, _, errno := unix.RawSyscall6(unix.SYS_TEE, uintptr(src), uintptr(dst), uintptr(n), unix.SPLICE_F_NONBLOCK, 0, 0)
		switch errno {
		case 0:
			return int64(m), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
