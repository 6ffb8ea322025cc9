package cgroup

import (
	"strings"
	"syscall"
)

// Kind is why a source gives no cgroup. The set is closed.
type Kind string

// The kinds.
const (
	Absent       Kind = "absent"        // there is no such directory or hierarchy
	NotCgroup    Kind = "not_cgroup"    // it is a directory of something else
	ReadOnly     Kind = "read_only"     // mounted so
	Denied       Kind = "denied"        // not this user's to write
	Managed      Kind = "managed"       // systemd's, and not delegated
	Full         Kind = "full"          // cgroup.max.descendants or cgroup.max.depth
	Occupied     Kind = "occupied"      // processes of others are in it
	NoController Kind = "no_controller" // none of those that are needed
	NoSystemd    Kind = "no_systemd"    // it can't be asked, or refused
	TimedOut     Kind = "timed_out"
	Failed       Kind = "failed"      // another errno of the kernel's
	Unsupported  Kind = "unsupported" // no cgroups on this system
)

// Error is why there is no cgroup, or why something can't be done with it.
type Error struct {
	Source Source
	Kind   Kind
	Op     string // the system call, or the method of systemd's
	Path   string
	Errno  syscall.Errno
	Why    string // where Op and Errno don't say it
	// Next is why the source that was tried after this one gave none either.
	Next *Error
}

func (e *Error) Error() string {
	var b strings.Builder
	for sep := ""; e != nil; e, sep = e.Next, "; " {
		b.WriteString(sep)
		e.one(&b)
	}
	return b.String()
}

func (e *Error) one(b *strings.Builder) {
	colon := ""
	part := func(sep, s string) {
		if s != "" {
			b.WriteString(sep + s)
			colon = ": "
		}
	}
	part("", string(e.Source))
	part(colon, e.Op)
	if e.Path != "" {
		sep := colon
		if e.Op != "" {
			sep = " "
		}
		part(sep, `"`+e.Path+`"`)
	}
	if e.Errno != 0 {
		part(colon, e.Errno.Error())
	}
	part(colon, e.Why)
}

// Unwrap gives the errno, and why the next source gave none.
func (e *Error) Unwrap() (errs []error) {
	if e.Errno != 0 {
		errs = append(errs, e.Errno)
	}
	if e.Next != nil {
		errs = append(errs, e.Next)
	}
	return errs
}

// and appends what came after.
func (e *Error) and(next *Error) *Error {
	if e == nil {
		return next
	}
	last := e
	for last.Next != nil {
		last = last.Next
	}
	last.Next = next
	return e
}

// kindOf classifies what the kernel says when a cgroup is made or changed.
func kindOf(errno syscall.Errno) Kind {
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR:
		return Absent
	case syscall.EROFS:
		return ReadOnly
	case syscall.EACCES, syscall.EPERM:
		return Denied
	case syscall.EAGAIN:
		return Full
	case syscall.EBUSY:
		return Occupied
	case syscall.ETIMEDOUT:
		return TimedOut
	}
	return Failed
}
