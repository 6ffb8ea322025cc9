package fault

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAnErrorKeepsTheErrno(t *testing.T) {
	err := Of("openat2", "/x", unix.ELOOP)
	if e, ok := errors.AsType[*Error](err); !ok || e.Errno != unix.ELOOP || e.Path != "/x" || Errno(err) != unix.ELOOP {
		t.Errorf("%#v", err)
	}
	if Of("x", "", nil) != nil || Errno(nil) != 0 {
		t.Error("no error became one")
	}
	if err := Of("x", "", errors.New("odd")); Errno(err) != unix.EIO {
		t.Errorf("%#v", err)
	}
}
