package seccomp

import (
	"runtime"
	"strconv"
)

// Target is the machine that a policy is read for. Files in Docker's format have
// entries for some architectures and kernels only; other policies don't ask.
type Target struct {
	Arch   string // as runtime.GOARCH
	Kernel Kernel
}

// Kernel is a version of Linux. The zero value is an unknown one, for which a file
// that asks is an error.
type Kernel struct{ Major, Minor int }

func (k Kernel) String() string { return strconv.Itoa(k.Major) + "." + strconv.Itoa(k.Minor) }

func (k Kernel) atLeast(least Kernel) bool {
	return k.Major > least.Major || k.Major == least.Major && k.Minor >= least.Minor
}

// here is what Load and Parse read for.
func here() Target { return Target{Arch: runtime.GOARCH} }

// Notice is something in a policy file that is not as it looks, and no mistake.
type Notice struct {
	Line, Column int
	Text         string
	Hint         string // or ""
}

func (n Notice) String() string {
	if n.Hint != "" {
		return n.Text + "; " + n.Hint
	}
	return n.Text
}

// TargetError is a policy that was read for another architecture than it is to be
// compiled for.
type TargetError struct{ Read, Asked string }

func (e *TargetError) Error() string {
	return "seccomp: the policy was read for " + e.Read + ", and is to be compiled for " + e.Asked
}
