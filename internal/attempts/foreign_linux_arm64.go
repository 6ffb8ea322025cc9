package attempts

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// foreignCalls can't be made by a process of this machine: 32-bit calls are a
// program's, not an instruction's.
var foreignCalls = []namedCall{
	{"int80", noSuch}, {"x32", noSuch},
}

func noSuch() error { return fmt.Errorf("%w: this machine has none: %w", ErrBroken, unix.ENOSYS) }

// modifyLDT is a call that this machine doesn't have.
func modifyLDT() error { return unix.ENOSYS }
