package attempts

import "golang.org/x/sys/unix"

// modifyLDT is a call that this machine doesn't have.
func modifyLDT() error { return unix.ENOSYS }
