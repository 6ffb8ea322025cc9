//go:build unix

package places

import "syscall"

// Descriptors is how many descriptors this process may have. The Go runtime has raised it as far as it may be.
func Descriptors() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return int(min(uint64(l.Cur), 1<<30))
}
