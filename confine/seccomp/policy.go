package seccomp

// Policy is a list of rules over system calls by name, the same for every
// architecture. The first rule that names the call, and whose conditions all
// hold, decides; a call that no rule decides gets Default. It is plain data and
// is never changed once built.
type Policy struct {
	Kind    string // "default", "strict" or "file"
	Version string // "default/2", "strict/2", or the file's base name
	Default Outcome
	Rules   []Rule
	Notices []Notice // what a file says that is not as it looks

	watching int // so many rules, the first ones, are of those who watch, who let the kernel make the call

	beyond bool // it stands for default, see BeyondStrict

	arch string // what it was read for, when that matters; "": any
}

// Rule gives one outcome to some calls, for one reason.
type Rule struct {
	Name    string // "keyrings"; short, for people
	Reason  string
	Outcome Outcome
	Calls   []string
	Args    []Cond // all must hold; none: always
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

var doNames = [...]string{Deny: "deny", Refuse: "refuse", Allow: "allow", Errno: "errno", Kill: "kill", Log: "log"}

func (d Do) String() string { return doNames[d] }

// Outcome is what is done with a call, with the errno that Errno needs.
type Outcome struct {
	Do    Do
	Errno uint16
}

// String is "allow", "errno ENOSYS" and so on.
func (o Outcome) String() string {
	if o.Do == Errno {
		return "errno " + errnoName(o.Errno)
	}
	return o.Do.String()
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

var opNames = [...]string{Eq: "eq", Ne: "ne", Lt: "lt", Le: "le", Gt: "gt", Ge: "ge", In: "in", NotIn: "not_in"}

func (o Op) String() string { return opNames[o] }

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

func (c Cond) bits() uint64 {
	switch {
	case c.Mask != 0:
		return c.Mask
	case c.Width == 32:
		return 0xffffffff
	}
	return ^uint64(0)
}
