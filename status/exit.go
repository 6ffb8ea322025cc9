package status

// Dialect names one of the exit-code tables that --exit-codes chooses from.
type Dialect string

const (
	Normalized Dialect = "normalized" // each status its own code, as far as there are any
	GNU        Dialect = "gnu"        // as timeout(1) and env(1): a limit is 124, our own failure 125
	Simple     Dialect = "simple"     // a limit on time is 124, one on memory 125
)

// UsageRC is the exit code when nothing was started because the words, a file
// or the policy were wrong. It is the same in every dialect.
const UsageRC = 125

// code is an exit code, or one of the rules below.
type code int16

const (
	own    code = -1 - iota // the target's own
	signal                  // 128 + the signal, as a shell says it
	exec                    // 126 or 127, as a shell says it
)

// exitCodes is in the order of the constants in status.go.
var exitCodes = [...]struct {
	status                  Status
	normalized, gnu, simple code
}{
	{OK, 0, 0, 0},
	{Failed, own, own, own},
	{Timeout, 124, 124, 124},    // timeout(1)
	{CPULimit, 152, 124, 124},   // 128 + SIGXCPU
	{MemLimit, 137, 137, 125},   // 128 + SIGKILL, which is what the kernel's OOM kill sends
	{KilledTerm, 143, 143, 143}, // 128 + SIGTERM
	{KilledKill, 137, 137, 137}, // 128 + SIGKILL
	{KilledSignal, signal, signal, signal},
	{ForbiddenSyscall, 159, 159, 159}, // 128 + SIGSYS
	{SandboxDenied, own, own, own},    // the target saw the refusal and said so itself
	{ExecFailed, exec, exec, exec},    // sh(1): 127 not found, 126 not executable
	{InternalError, 1, UsageRC, 1},
}

// RC is the exit code of confine for a run that ended with s. exitCode is the
// target's own, or 126 or 127 when it could not be started; signal is the number
// of the one that ended it. A dialect that isn't known counts as normalized, and
// what can't be (a status outside the set, FAILED with 0) is never a success.
func (s Status) RC(d Dialect, exitCode, sig int) int {
	for i := range exitCodes {
		row := &exitCodes[i]
		if row.status != s {
			continue
		}
		c := row.normalized
		switch d {
		case GNU:
			c = row.gnu
		case Simple:
			c = row.simple
		}
		return c.resolve(exitCode, sig)
	}
	return InternalError.RC(d, 0, 0)
}

func (c code) resolve(exitCode, sig int) int {
	switch c {
	case own:
		if exitCode&0xff == 0 {
			return 1
		}
		return exitCode & 0xff
	case signal:
		if sig < 1 || sig > 127 {
			return 255
		}
		return 128 + sig
	case exec:
		if exitCode == 126 {
			return 126
		}
		return 127
	}
	return int(c)
}

// Statuses are all there are, in the order of the table.
func Statuses() []Status {
	all := make([]Status, len(exitCodes))
	for i := range exitCodes {
		all[i] = exitCodes[i].status
	}
	return all
}
