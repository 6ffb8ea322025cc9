package outcome

import (
	"fmt"
	"syscall"
)

// SignalName is the name as in signal(7). Real-time signals go by their number: the kernel's
// SIGRTMIN is 32, glibc's 34.
func SignalName(n syscall.Signal) string {
	if n > 0 && int(n) < len(signalNames) && signalNames[n] != "" {
		return "SIG" + signalNames[n]
	}
	return fmt.Sprintf("SIG%d", int(n))
}

// These have no names on Windows. They are the same on all others.
const sigXCPU, sigXFSZ = syscall.Signal(24), syscall.Signal(25)
