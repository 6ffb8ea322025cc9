package seccomp

import "slices"

// SECCOMP_RET_USER_NOTIF and what is tested in seccomp(2)'s flags.
const (
	retUserNotif    = 0x7fc00000
	retActionFull   = 0xffff0000
	flagNewListener = 1 << 3 // SECCOMP_FILTER_FLAG_NEW_LISTENER
	eacces          = 13
	ebusy           = 16
)

// denial says whether a return value is a denial: one that kills, or that says
// "not permitted" (EPERM, EACCES). Every other errno is what a kernel without
// the call, or built without that part of it, would answer (ENOSYS,
// EAFNOSUPPORT): programs try such calls and go on without.
func denial(ret uint32) bool {
	return ret == retKillProcess || ret == retErrno|eperm || ret == retErrno|eacces
}

// room is left for those who load it.
const room = 16

// Notifying is the program with each denial handed to a listener
// (SECCOMP_RET_USER_NOTIF), which answers as Refusal says. So is exit_group with a status
// that isn't 0 (Exits): what a process that fails still has tells which limit it has
// reached. Other allowed calls take the same way through it. It is nil where there is nothing to hand on, and where
// there must be no handing on: the last steps before execve wait for nobody.
//
// It refuses a listener to whoever is under it, as the kernel does, too, but only
// while ours is open: of two listeners the newer is asked, and may let the call
// through.
func (f *Filter) Notifying() []uint64 {
	program := slices.Clone(f.Program)
	found := false
	for i, w := range program {
		if uint16(w>>48) == opRet && denial(uint32(w)) {
			program[i], found = uint64(opRet)<<48|retUserNotif, true
		}
	}
	nr, ok := f.table.lookup("seccomp")
	exit, known := f.table.lookup("exit_group")
	if !found || !ok || !known || !f.policy.lets("execve") || !f.policy.lets("exit_group") {
		return nil
	}
	insn := func(op, jt, jf, k uint64) uint64 { return op<<48 | jt<<40 | jf<<32 | k }
	program = append([]uint64{
		insn(opLoad, 0, 0, offArch),
		insn(opJeq, 0, 11, uint64(f.table.audit)),
		insn(opLoad, 0, 0, offNr),
		insn(opJeq, 0, 4, uint64(exit)),
		insn(opLoad, 0, 0, offArgs),
		insn(opAnd, 0, 0, 0xff),
		insn(opJeq, 6, 0, 0),
		insn(opRet, 0, 0, retUserNotif),
		insn(opJeq, 0, 4, uint64(nr)),
		insn(opLoad, 0, 0, offArgs+8),
		insn(opAnd, 0, 0, flagNewListener),
		insn(opJeq, 1, 0, 0),
		insn(opRet, 0, 0, retErrno|ebusy),
	}, program...)
	if len(program) > maxInstructions-room {
		return nil
	}
	return program
}

// lets says whether a call is let through whatever its arguments are.
func (p *Policy) lets(name string) bool {
	for i := range p.Rules[p.watching:] {
		r := &p.Rules[p.watching+i]
		if !slices.Contains(r.Calls, name) {
			continue
		}
		if r.Outcome.Do != Allow && r.Outcome.Do != Log {
			return false
		}
		if len(r.Args) == 0 {
			return true
		}
	}
	return p.Default.Do == Allow || p.Default.Do == Log
}

// Refusal is a call that was not let through.
type Refusal struct {
	What  string // "socket(AF_PACKET, SOCK_RAW, …)"
	Rule  string // "default" when no rule decided
	Kill  bool
	Errno uint16 // when it doesn't kill
	// Supervised: the call is refused only to the caller. Who listens may make it in
	// the caller's place; nothing else in the policy is against it.
	Supervised bool
	// Untold: without those who watch it would not have been heard of.
	Untold bool
	// Let: the policy lets it through, and wants it told.
	Let bool
}

// supervised is the rule of SupervisedNetwork whose calls are made by who listens.
const supervised = "supervised-network"

// Watched is the rule of WatchedFiles and WatchedLooks, whose calls the kernel makes.
const Watched = "watched-files"

// Exits is the rule of exit_group with a status that isn't 0, which the kernel makes.
const Exits = "exits"

// beneath decides without that of SupervisedNetwork: what a policy says of the call itself.
func (p *Policy) beneath(name string, args *[6]uint64) Verdict {
	return p.except(name, args, supervised)
}

// except decides without the rules of those who watch, and of one name.
func (p *Policy) except(name string, args *[6]uint64, rule string) Verdict {
	for i := range p.Rules[p.watching:] {
		r := &p.Rules[p.watching+i]
		if r.Name == rule || !slices.Contains(r.Calls, name) {
			continue
		}
		if holds, _ := r.holds(args, allGiven); holds {
			return Verdict{r.Outcome, r.Name, r.Reason}
		}
	}
	return Verdict{p.Default, "default", "no rule names it"}
}

// watches says whether a native call is one that is watched.
func (p *Policy) watches(name string, args *[6]uint64) bool {
	return slices.ContainsFunc(p.Rules[:p.watching], func(r Rule) bool {
		holds, _ := r.holds(args, allGiven)
		return holds && slices.Contains(r.Calls, name)
	})
}

// Refusal says how the filter refuses a call, given as the kernel gives it to a
// filter. text, if not nil, reads a string of the caller's at an address; what it
// gives is for words alone. A call that the filter would let through is nobody's
// to ask about, and is refused.
func (f *Filter) Refusal(audit, nr uint32, args [6]uint64, text func(addr uint64) string) Refusal {
	if f.native(audit, nr) && f.table.name(nr) == "exit_group" && f.policy.lets("exit_group") {
		return Refusal{What: "exit_group", Rule: Exits, Errno: eperm, Supervised: true}
	}
	v := f.policy.number(f.table, audit, nr, args)
	untold := false
	if f.policy.watching > 0 && f.native(audit, nr) && f.policy.watches(f.table.name(nr), &args) {
		v = f.policy.except(f.table.name(nr), &args, "")
		ret := v.ret(f.action)
		if ret == retAllow || ret == retLog {
			return Refusal{What: f.table.name(nr), Rule: Watched, Errno: eacces, Supervised: true}
		}
		untold = !denial(ret)
	}
	if v.Rule == supervised {
		if v = f.policy.beneath(f.table.name(nr), &args); goesThrough(v) {
			return Refusal{What: f.table.name(nr), Rule: supervised, Errno: eacces, Supervised: true}
		}
	}
	if f.policy.isBeyond(v) {
		if v = builtinDefault.policy.Decide(f.table.name(nr), args); goesThrough(v) {
			return Refusal{What: f.table.words(audit, nr, args, text), Rule: Beyond, Errno: eacces, Let: true}
		}
		untold = untold || !denial(v.ret(f.action))
	}
	r := Refusal{Untold: untold, What: f.table.words(audit, nr, args, text), Rule: v.Rule, Errno: eperm}
	switch ret := v.ret(f.action); {
	case ret == retKillProcess:
		r.Kill, r.Errno = true, 0
	case ret&retActionFull == retErrno:
		r.Errno = uint16(ret)
	}
	return r
}

// Hint says what would let the call through, if anything does.
func (f *Filter) Hint(audit, nr uint32, args [6]uint64) string {
	v := f.policy.number(f.table, audit, nr, args)
	name := f.table.name(nr)
	if f.policy.watching > 0 && f.native(audit, nr) && f.policy.watches(name, &args) {
		v = f.policy.except(name, &args, "")
	}
	switch {
	case v.Rule == "foreign":
		return "no policy lets calls of another architecture through; --seccomp off has no filter"
	case v.Rule == "supervised-sockets":
		return "there is no network namespace: only plain TCP and UDP can be led to what is allowed; --allow-network all lets it through"
	case v.Rule == "no-network":
		return "--allow-network all lets it through"
	case v.Rule == "shared-pids":
		return "it would reach the caller's own processes: there is no pid namespace, and confine doctor says why"
	case v.Rule == "shared-ipc":
		return "there is no IPC namespace, and confine doctor says why"
	case v.Rule == "keep-cpus":
		return "it would undo the limit of cores; --cpus none lets it through"
	case v.Rule == "namespaces", v.Rule == "setns":
		return "there are no other namespaces inside: no option allows it"
	case needsCapability(name, v.Rule):
		return "it takes a capability, and the command has none: no option allows it"
	case f.policy.Kind == "strict" && goesThrough(builtinDefault.policy.Decide(name, args)):
		return "--seccomp default lets it through"
	case f.policy.Kind == "file" && v.Rule == "default":
		return "no rule of " + f.policy.Version + " names it"
	case f.policy.Kind == "file":
		return "rule \"" + v.Rule + "\" of " + f.policy.Version + " says so"
	}
	return v.Reason + "; a policy file lets it through: extends = \"" + f.policy.Kind + "\" and [[rules]] with names = [\"" + name + "\"], action = \"allow\"; --seccomp FILE names it"
}

// native says whether it is a call of this filter's own table.
func (f *Filter) native(audit, nr uint32) bool {
	return audit == f.table.audit && nr < uint32(len(f.table.names)) && f.table.names[nr] != ""
}

// Free are native calls that are only watched, whatever their arguments are: their numbers,
// and whose they are. Nobody has to ask about them one by one.
func (f *Filter) Free() (audit uint32, numbers map[uint32]bool) {
	numbers = make(map[uint32]bool)
	for _, r := range f.policy.Rules[:f.policy.watching] {
		for _, name := range r.Calls {
			if nr, ok := f.table.lookup(name); ok && f.policy.lets(name) {
				numbers[uint32(nr)] = true
			}
		}
	}
	return f.table.audit, numbers
}

func goesThrough(v Verdict) bool { return v.Do == Allow || v.Do == Log }

// needsCapability: the kernel refuses it to everybody without one, whatever a policy says.
func needsCapability(name, rule string) bool {
	switch name {
	case "quotactl", "quotactl_fd", "adjtimex", "clock_adjtime": // not every use of them
		return false
	}
	switch rule {
	case "mounts", "kernel-code", "host", "file-handles":
		return true
	}
	return false
}
