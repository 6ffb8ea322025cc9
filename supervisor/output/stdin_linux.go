package output

import (
	"os"

	"golang.org/x/sys/unix"
)

// Kind is what the caller's standard input is, as far as it matters.
type Kind uint8

const (
	// Null reads nothing: /dev/null, or no standard input at all. The target gets a /dev/null of its own.
	Null Kind = iota
	// Teed is an anonymous pipe. The target gets a pipe, and what it doesn't read stays in the caller's.
	Teed
	// Relayed is anything else. The target gets a pipe, and holds nothing of the
	// caller's file, socket, device or terminal.
	Relayed
)

// Stdin says what fd is as a standard input.
func Stdin(fd int) Kind {
	var st unix.Stat_t
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || unix.Fstat(fd, &st) != nil {
		return Null // closed
	}
	if flags&unix.O_PATH != 0 || flags&unix.O_ACCMODE == unix.O_WRONLY {
		return Null // nothing can be read there
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return Null
	case unix.S_IFCHR:
		if st.Rdev == unix.Mkdev(1, 3) {
			return Null
		}
	case unix.S_IFIFO:
		if anonymous(fd) {
			return Teed
		}
	}
	return Relayed
}

// Stdin makes the target's standard input out of the caller's fd, before Start.
// The result is the caller's to close once the target has it.
func (p *Pump) Stdin(fd int) (target int, err error) {
	kind := Stdin(fd)
	if kind == Null {
		return unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	r, w, err := Pipe()
	if err != nil {
		return -1, err
	}
	if kind == Teed {
		if t, err := newTee(fd, r, w); err == nil {
			p.ins = append(p.ins, t)
			return r, nil
		}
	}
	in, err := newInput(fd, w)
	if err != nil {
		unix.Close(r)
		unix.Close(w)
		return -1, err
	}
	if in.seekable {
		// Our own reading end: what lies unread in the pipe can still be counted
		// when the file has ended and the writing end is closed.
		if in.hold, err = unix.FcntlInt(uintptr(r), unix.F_DUPFD_CLOEXEC, 3); err != nil {
			unix.Close(r)
			in.end()
			return -1, err
		}
	}
	if in.terminal {
		// One line ahead and no more: what the target doesn't read is the next program's.
		_, err := unix.FcntlInt(uintptr(w), unix.F_SETPIPE_SZ, os.Getpagesize())
		in.oneAhead = err == nil
	}
	p.ins = append(p.ins, in)
	return r, nil
}

// Keyboard relays the caller's fd to the pty master, before Start. keys is whoever
// makes the terminal fd raw; nil is nobody.
func (p *Pump) Keyboard(fd, master int, keys Keys) error {
	own, err := unix.FcntlInt(uintptr(master), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return err
	}
	in, err := newInput(fd, own)
	if err != nil {
		unix.Close(own)
		return err
	}
	in.keys, in.pty = keys, true
	p.ins = append(p.ins, in)
	return nil
}
