package fault

import "golang.org/x/sys/unix"

// Error is a system call that failed.
type Error struct {
	Op, Path string
	Errno    unix.Errno
}

func (e *Error) Error() string { return e.Op + " " + e.Path + ": " + e.Errno.Error() }

// Of makes err, which comes from one system call, an *Error.
func Of(op, path string, err error) error {
	if err == nil {
		return nil
	}
	errno, ok := err.(unix.Errno)
	if !ok {
		errno = unix.EIO
	}
	return &Error{op, path, errno}
}

// Errno is that of err, or 0 if err is no *Error.
func Errno(err error) unix.Errno {
	if e, ok := err.(*Error); ok {
		return e.Errno
	}
	return 0
}
