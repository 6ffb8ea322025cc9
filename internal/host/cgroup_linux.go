package host

import "golang.org/x/sys/unix"

// mayWrite asks the kernel whether this process, as it is, may write path. It
// says no for a mount that is read-only too.
func mayWrite(path string) error {
	// flags: the effective ids count. The libc-less faccessat would use the real ones.
	err := unix.Faccessat2(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS)
	if err == unix.ENOSYS || err == unix.EPERM { // before Linux 5.8, or filtered
		err = unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, 0)
	}
	if err != nil {
		return &notWritable{path, err.(unix.Errno)}
	}
	return nil
}

type notWritable struct {
	path  string
	errno unix.Errno
}

func (e *notWritable) Error() string {
	return "access(\"" + e.path + "\", W_OK): " + errnoText(e.errno)
}

func (e *notWritable) Unwrap() error { return e.errno }
