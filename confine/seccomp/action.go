package seccomp

// Action is what happens to a call that a policy denies: --seccomp-action.
type Action string

const (
	ActionErrno Action = "errno" // it fails with EPERM
	ActionKill  Action = "kill"  // the process dies by SIGSYS
	ActionLog   Action = "log"   // it goes through, and the kernel logs it
)

func (a Action) check() error {
	switch a {
	case ActionErrno, ActionKill, ActionLog:
		return nil
	}
	return &ActionError{a}
}

// SECCOMP_RET_*.
const (
	retKillProcess = 0x80000000
	retErrno       = 0x00050000
	retLog         = 0x7ffc0000
	retAllow       = 0x7fff0000
)

// Under says what an outcome comes to under an action: "allow", "log", "kill"
// or "errno NAME".
func (o Outcome) Under(a Action) string {
	switch ret := o.ret(a); ret {
	case retKillProcess:
		return Kill.String()
	case retLog:
		return Log.String()
	case retAllow:
		return Allow.String()
	default:
		return Outcome{Errno, uint16(ret)}.String()
	}
}

// ret is the filter's return value. What is no known outcome kills.
func (o Outcome) ret(a Action) uint32 {
	switch o.Do {
	case Allow:
		return retAllow
	case Log:
		return retLog
	case Errno:
		return retErrno | uint32(o.Errno)
	case Deny, Refuse:
		switch {
		case a == ActionErrno, a == ActionLog && o.Do == Refuse:
			return retErrno | eperm
		case a == ActionLog:
			return retLog
		}
	}
	return retKillProcess
}
