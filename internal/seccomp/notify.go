package seccomp

import "slices"

const (
	flagNewListener = 1 << 3 // SECCOMP_FILTER_FLAG_NEW_LISTENER
	eacces          = 13
	ebusy           = 16
	sigabrt         = 6
)

// denial says whether a return value is a denial: one that kills, or that says
// "not permitted" (EPERM, EACCES). Every other errno is what a kernel without
// the call, or built without that part of it, would answer (ENOSYS,
// EAFNOSUPPORT): programs try such calls and go on without.
func denial(ret uint32) bool {
	return ret == retKillProcess || ret == retErrno|eperm || ret == retErrno|eacces
}

func passes(ret uint32) bool { return ret == retAllow || ret == retLog }

// loaderRoom is how many instructions are left for those who load it.
const loaderRoom = 16

// Notifying is the program with each denial handed to a listener
// (SECCOMP_RET_USER_NOTIF), which answers as Refusal says. So is exit_group with a status
// that isn't 0 (Exits), and tgkill with SIGABRT (Aborts), as abort(3) makes it: what a process
// that fails still has tells which limit it has reached. Other allowed calls take the same way through it. It is nil where there is nothing to hand on, and where
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
	nr, ok := f.table.Number("seccomp")
	exit, known := f.table.Number("exit_group")
	if !found || !ok || !known || !f.policy.Lets("execve") || !f.policy.Lets("exit_group") {
		return nil
	}
	insn := func(op, jt, jf, k uint64) uint64 { return op<<48 | jt<<40 | jf<<32 | k }
	var aborts []uint64
	if nr, ok := f.table.Number("tgkill"); ok && f.policy.Lets("tgkill") {
		aborts = []uint64{
			insn(opJeq, 0, 3, uint64(nr)),
			insn(opLoad, 0, 0, offArgs+16),
			insn(opJeq, 0, 1, sigabrt),
			insn(opRet, 0, 0, retUserNotif),
		}
	}
	rest := uint64(len(aborts))
	program = slices.Concat([]uint64{
		insn(opLoad, 0, 0, offArch),
		insn(opJeq, 0, 11+rest, uint64(f.table.audit)),
		insn(opLoad, 0, 0, offNr),
		insn(opJeq, 0, 4, uint64(exit)),
		insn(opLoad, 0, 0, offArgs),
		insn(opAnd, 0, 0, 0xff),
		insn(opJeq, 6+rest, 0, 0),
		insn(opRet, 0, 0, retUserNotif),
		insn(opJeq, 0, 4, uint64(nr)),
		insn(opLoad, 0, 0, offArgs+8),
		insn(opAnd, 0, 0, flagNewListener),
		insn(opJeq, 1+rest, 0, 0),
		insn(opRet, 0, 0, retErrno|ebusy),
	}, aborts, program)
	if len(program) > maxInstructions-loaderRoom {
		return nil
	}
	return program
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

const (
	// supervised is the rule of SupervisedNetwork whose calls are made by who listens.
	supervised = "supervised-network"
	// Watched is the rule of WatchedFiles and WatchedLooks, whose calls the kernel makes.
	Watched = "watched-files"
	// Exits is the rule of exit_group with a status that isn't 0, which the kernel makes.
	Exits = "exits"
	// Aborts is the rule of tgkill with SIGABRT, which the kernel makes, too.
	Aborts = "aborts"
)

// decideWithout decides without the rules that only watch, and without those of one name.
func (p *Policy) decideWithout(name string, args *[6]uint64, rule string) Verdict {
	for r := range rulesFor(p.Rules[p.watching:], name) {
		if holds, _ := r.holds(args, allGiven); holds && r.Name != rule {
			return r.verdict()
		}
	}
	return p.otherwise()
}

// decideUnwatched decides as the kernel sees a call, without the rules that only watch; watched says
// that one of these is about it.
func (f *Filter) decideUnwatched(audit, nr uint32, args [6]uint64) (v Verdict, watched bool) {
	name := f.table.name(nr)
	if f.table.native(audit, nr) {
		for r := range rulesFor(f.policy.Rules[:f.policy.watching], name) {
			if holds, _ := r.holds(&args, allGiven); holds {
				return f.policy.decideWithout(name, &args, ""), true
			}
		}
	}
	return f.policy.number(f.table, audit, nr, args), false
}

// Refusal says how the filter refuses a call, given as the kernel gives it to a
// filter. text, if not nil, reads a string of the caller's at an address; what it
// gives is for words alone. A call that the filter would let through is nobody's
// to ask about, and is refused.
func (f *Filter) Refusal(audit, nr uint32, args [6]uint64, text func(addr uint64) string) Refusal {
	name := f.table.name(nr)
	if f.table.native(audit, nr) && name == "exit_group" && f.policy.Lets(name) {
		return Refusal{What: name, Rule: Exits, Errno: eperm, Supervised: true}
	}
	if f.table.native(audit, nr) && name == "tgkill" && uint32(args[2]) == sigabrt && f.policy.Lets(name) {
		return Refusal{What: name, Rule: Aborts, Errno: eperm, Supervised: true}
	}
	v, watched := f.decideUnwatched(audit, nr, args)
	if watched && passes(v.ret(f.action)) {
		return Refusal{What: name, Rule: Watched, Errno: eacces, Supervised: true}
	}
	untold := watched && !denial(v.ret(f.action))
	if v.Rule == supervised {
		if v = f.policy.decideWithout(name, &args, supervised); v.LetsThrough() {
			return Refusal{What: name, Rule: supervised, Errno: eacces, Supervised: true}
		}
	}
	what := f.table.words(audit, nr, args, text)
	if f.policy.isBeyond(v) {
		if v = Builtin("default").Decide(name, args); v.LetsThrough() {
			return Refusal{What: what, Rule: Beyond, Errno: eacces, Let: true}
		}
		untold = untold || !denial(v.ret(f.action))
	}
	r := Refusal{Untold: untold, What: what, Rule: v.Rule, Errno: eperm}
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
	v, _ := f.decideUnwatched(audit, nr, args)
	name, kind := f.table.name(nr), f.policy.Kind
	switch v.Rule {
	case "foreign":
		return "no policy lets calls of another architecture through; --seccomp off has no filter"
	case "supervised-sockets":
		return "there is no network namespace: only plain TCP and UDP can be led to what is allowed; --allow-network all lets it through"
	case "no-network":
		return "--allow-network all lets it through"
	case "shared-pids":
		return "it would reach the caller's own processes: there is no pid namespace, and confine doctor says why"
	case "shared-ipc":
		return "there is no IPC namespace, and confine doctor says why"
	case "keep-cpus":
		return "it would undo the limit of cores; --cpus none lets it through"
	case "namespaces", "setns":
		return "there are no other namespaces inside: no option allows it"
	}
	switch {
	case needsCapability(name, v.Rule):
		return "it takes a capability, and the command has none: no option allows it"
	case kind == "strict" && Builtin("default").Decide(name, args).LetsThrough():
		return "--seccomp default lets it through"
	case kind == "file" && v.Rule == "default":
		return "no rule of " + f.policy.Version + " names it"
	case kind == "file":
		return "rule \"" + v.Rule + "\" of " + f.policy.Version + " says so"
	}
	return v.Reason + "; a policy file lets it through: extends = \"" + kind + "\" and [[rules]] with names = [\"" + name + "\"], action = \"allow\"; --seccomp FILE names it"
}

// Free are native calls that are only watched, whatever their arguments are: their numbers,
// and whose they are. Nobody has to ask about them one by one.
func (f *Filter) Free() (audit uint32, numbers map[uint32]bool) {
	numbers = make(map[uint32]bool)
	for _, r := range f.policy.Rules[:f.policy.watching] {
		for _, name := range r.Calls {
			if nr, ok := f.table.Number(name); ok && f.policy.Lets(name) {
				numbers[uint32(nr)] = true
			}
		}
	}
	return f.table.audit, numbers
}

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
