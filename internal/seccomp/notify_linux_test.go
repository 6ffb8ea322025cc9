//go:build amd64 || arm64

package seccomp

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// When the listener is closed while somebody is still under the filter, nothing that
// was denied is allowed, and nobody can put himself in its place.
func TestTheKernelKeepsDenyingWithoutTheListener(t *testing.T) {
	f := compileBuiltin(t, "default", ActionErrno, runtime.GOARCH)
	listener := victim{NR: unix.SYS_SECCOMP, Args: [6]uint64{unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER}}
	for _, c := range []struct {
		name          string
		v             victim
		control, want string
	}{
		{"a denied call", victim{NR: unix.SYS_ADD_KEY}, "errno 14", missing},
		{"an allowed call", victim{NR: unix.SYS_GETPPID}, "ok", "ok"},
		{"a listener of its own", listener, "errno 14", "errno 16"},
	} {
		if got := unfiltered(t, c.v); got != c.control {
			t.Fatalf("control: %s without a filter: %q, want %q", c.name, got, c.control)
		}
		c.v.Program, c.v.Listener = f.Notifying(), true
		if got, out := c.v.run(t); got != c.want {
			t.Errorf("%s: %q, want %q\n%s", c.name, got, c.want, out)
		}
	}
	// Without our own refusal the kernel would only look at the open ones.
	listener.Program, listener.Listener = f.Program, true
	if got, _ := listener.run(t); got != "errno 14" {
		t.Errorf("control: a second listener after the first is closed: %q", got)
	}
}
