package seccomp

import (
	"iter"
	"slices"
)

// Policy is a list of rules over system calls by name, the same for every
// architecture. The first rule that names the call, and whose conditions all
// hold, decides; a call that no rule decides gets Default. It is plain data and
// is never changed once built.
type Policy struct {
	Kind    string // "default", "strict" or "file"
	Version string // "default/3", "strict/2", or the file's base name; with "+NAME" for each addition
	Default Outcome
	Rules   []Rule
	Arch    string   // what it was read for, when that matters; "": any
	Notices []Notice // what a file says that is not as it looks

	watching int  // so many rules, the first ones, are of those who watch, who let the kernel make the call
	beyond   bool // it stands for default, see BeyondStrict
}

// Rule gives one outcome to some calls, for one reason.
type Rule struct {
	Name    string // "keyrings"; short, for people
	Reason  string
	Outcome Outcome
	Calls   []string
	Args    []Cond // all must hold; none: always
}

// Notice is something in a policy file that is not as it looks, and no mistake.
type Notice struct {
	Line, Column int
	Text         string
	Hint         string // or ""
	Doubtful     bool   // ordinary programs may fail by it, or a rule not do what was meant
}

func (n Notice) String() string {
	if n.Hint != "" {
		return n.Text + "; " + n.Hint
	}
	return n.Text
}

// Do is what is done with a call.
type Do uint8

const (
	// Deny does what --seccomp-action says: refuse with EPERM, kill, or log.
	Deny Do = iota
	// Refuse is Deny, except that --seccomp-action log refuses with EPERM, too:
	// for what is a way out of the sandbox and not only unusual.
	Refuse
	// Allow lets the call through.
	Allow
	// Errno refuses with the outcome's own errno, whatever --seccomp-action
	// says: for what ordinary programs try and get along without.
	Errno
	// Kill ends the process, whatever --seccomp-action says.
	Kill
	// Log lets the call through and leaves a line in the kernel's log.
	Log
)

// Dos are the words for them, each at its number.
var Dos = [...]string{Deny: "deny", Refuse: "refuse", Allow: "allow", Errno: "errno", Kill: "kill", Log: "log"}

func (d Do) String() string { return Dos[d] }

// Outcome is what is done with a call, with the errno that Errno needs.
type Outcome struct {
	Do    Do
	Errno uint16
}

// String is "allow", "errno ENOSYS" and so on.
func (o Outcome) String() string {
	if o.Do == Errno {
		return "errno " + ErrnoName(o.Errno)
	}
	return o.Do.String()
}

// LetsThrough says whether the call is made.
func (o Outcome) LetsThrough() bool { return o.Do == Allow || o.Do == Log }

// Action is what happens to a call that a policy denies: --seccomp-action.
type Action string

const (
	ActionErrno Action = "errno" // it fails with EPERM
	ActionKill  Action = "kill"  // the process dies by SIGSYS
	ActionLog   Action = "log"   // it goes through, and the kernel logs it
)

// SECCOMP_RET_*.
const (
	retKillProcess = 0x80000000
	retErrno       = 0x00050000
	retUserNotif   = 0x7fc00000
	retLog         = 0x7ffc0000
	retAllow       = 0x7fff0000
	retActionFull  = 0xffff0000
)

// Under says what an outcome comes to under an action: "allow", "log", "kill"
// or "errno NAME".
func (o Outcome) Under(a Action) string { return returned(o.ret(a)) }

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

// returned names SECCOMP_RET_*.
func returned(ret uint32) string {
	switch {
	case ret == retAllow:
		return "allow"
	case ret == retLog:
		return "log"
	case ret == retKillProcess:
		return "kill"
	case ret == retUserNotif:
		return "notify"
	case ret&retActionFull == retErrno && ErrnoName(uint16(ret)) != "?":
		return "errno " + ErrnoName(uint16(ret))
	}
	return hexadecimal(ret)
}

// Op compares a masked argument with a value, without sign.
type Op uint8

// In holds when the argument is one of several values.
const (
	Eq Op = iota
	Ne
	Lt
	Le
	Gt
	Ge
	In
	NotIn
)

// Ops are the words for them, each at its number.
var Ops = [...]string{Eq: "eq", Ne: "ne", Lt: "lt", Le: "le", Gt: "gt", Ge: "ge", In: "in", NotIn: "not_in"}

func (o Op) String() string { return Ops[o] }

// Cond is one condition on one argument.
type Cond struct {
	Index uint8 // which argument, from 0
	// Width says how much of the register the kernel looks at: 32 where it takes
	// an int. Then the upper half is free for the caller to fill, and a comparison
	// of all 64 bits would be one that the caller can dodge (CVE-2019-7303).
	Width  uint8
	Op     Op
	Mask   uint64   // which bits are compared; 0: all of Width
	Values []uint64 // one, or several for In and NotIn
}

// Bits are those that are compared.
func (c Cond) Bits() uint64 {
	switch {
	case c.Mask != 0:
		return c.Mask
	case c.Width == 32:
		return 0xffffffff
	}
	return ^uint64(0)
}

func (c Cond) same(d Cond) bool {
	return c.Index == d.Index && c.Width == d.Width && c.Op == d.Op && c.Mask == d.Mask && slices.Equal(c.Values, d.Values)
}

// rulesFor gives the rules that name a call, in their order.
func rulesFor(rules []Rule, name string) iter.Seq[*Rule] {
	return func(yield func(*Rule) bool) {
		for i := range rules {
			if slices.Contains(rules[i].Calls, name) && !yield(&rules[i]) {
				return
			}
		}
	}
}

// Lets says whether a call is let through whatever its arguments are. Calls that are only
// watched are.
func (p *Policy) Lets(name string) bool {
	for r := range rulesFor(p.Rules[p.watching:], name) {
		if !r.Outcome.LetsThrough() {
			return false
		}
		if len(r.Args) == 0 {
			return true
		}
	}
	return p.Default.LetsThrough()
}
