//go:build unix && !linux

package outputs

import "golang.org/x/sys/unix"

// pathOnly: there are no descriptors here that only name a file.
const pathOnly = 0

// openDir follows links: there are no runs here that could have left one.
func openDir(dir string) (int, error) {
	return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// unnamed is only for Linux.
func (s *Sink) unnamed() int { return -1 }

func link(int, int, string) error { return unix.ENOSYS }
