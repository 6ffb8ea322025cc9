//go:build unix

package worker

import (
	"os"
	"syscall"
)

// locked locks a directory, unless somebody else has, who may be waited for.
func locked(dir string, wait bool) (f *os.File, ok bool) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	if syscall.Flock(int(f.Fd()), how) != nil {
		_ = f.Close()
		return nil, false
	}
	return f, true
}
