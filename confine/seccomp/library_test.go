//go:build linux && (amd64 || arm64)

package seccomp

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	library "github.com/elastic/go-seccomp-bpf"
)

// express says rules in the words of go-seccomp-bpf: one group for each, since
// the first group that matches decides there. It compares whole registers only,
// so 32-bit conditions are expressed right for arguments of 32 bits.
func express(rules []Rule, byDefault library.Action, tab *table, a Action) *library.Policy {
	out := &library.Policy{DefaultAction: byDefault}
	for i := range rules {
		r := &rules[i]
		group := library.SyscallGroup{Action: library.Action(r.Outcome.ret(a))}
		for _, name := range r.Calls {
			switch _, found := tab.lookup(name); {
			case !found:
			case len(r.Args) == 0:
				group.Names = append(group.Names, libraryName(tab, name))
			default:
				for _, conds := range alternatives(r.Args) {
					group.NamesWithCondtions = append(group.NamesWithCondtions,
						library.NameWithConditions{Name: libraryName(tab, name), Conditions: conds})
				}
			}
		}
		out.Syscalls = append(out.Syscalls, group)
	}
	return out
}

func libraryName(tab *table, name string) string {
	if tab.arch == "arm64" && name == "newfstatat" {
		return "fstatat"
	}
	return name
}

// alternatives turns conditions into lists of the library's, any of which must
// hold: it has no sets.
func alternatives(args []Cond) []library.ArgumentConditions {
	out := []library.ArgumentConditions{nil}
	for _, c := range args {
		var next []library.ArgumentConditions
		for _, head := range out {
			for _, tail := range libraryConds(c) {
				next = append(next, append(slices.Clip(slices.Clone(head)), tail...))
			}
		}
		out = next
	}
	return out
}

func libraryConds(c Cond) []library.ArgumentConditions {
	one := func(op library.Operation, v uint64) library.Condition {
		return library.Condition{Argument: uint32(c.Index), Operation: op, Value: v}
	}
	v := c.Values[0]
	switch {
	case c.Mask != 0 && c.Op == Ne && v == 0:
		return []library.ArgumentConditions{{one(library.BitsSet, c.Mask)}}
	case c.Mask != 0 && c.Op == Eq:
		var all library.ArgumentConditions
		if rest := c.Mask &^ v; rest != 0 {
			all = append(all, one(library.BitsNotSet, rest))
		}
		for b := uint64(1); b != 0; b <<= 1 {
			if v&b != 0 {
				all = append(all, one(library.BitsSet, b))
			}
		}
		return []library.ArgumentConditions{all}
	case c.Mask != 0:
		panic("not expressible")
	case c.Op == In:
		var any []library.ArgumentConditions
		for _, v := range c.Values {
			any = append(any, library.ArgumentConditions{one(library.Equal, v)})
		}
		return any
	case c.Op == NotIn:
		var all library.ArgumentConditions
		for _, v := range c.Values {
			all = append(all, one(library.NotEqual, v))
		}
		return []library.ArgumentConditions{all}
	}
	ops := map[Op]library.Operation{Eq: library.Equal, Ne: library.NotEqual, Lt: library.LessThan,
		Le: library.LessOrEqual, Gt: library.GreaterThan, Ge: library.GreaterOrEqual}
	return []library.ArgumentConditions{{one(ops[c.Op], v)}}
}

// differ compares a policy's program with the library's, on every call of the
// table with every class of arguments, and says how many it compared.
//
// The rules without conditions are one program of the library's. Each rule with
// conditions is one for each call that it names, and they are asked in order:
// see TestTheLibraryTakesArgumentsForNumbers.
func differ(t *testing.T, p *Policy, tab *table, a Action, limit uint64) (compared int) {
	t.Helper()
	const undecided = library.ActionTrace
	assembled := func(rules []Rule, byDefault library.Action) *machine {
		insns, err := express(rules, byDefault, tab, a).Assemble()
		if err != nil {
			t.Fatal(err)
		}
		return newMachine(t, insns)
	}
	program, err := p.assemble(tab, a)
	if err != nil {
		t.Fatal(err)
	}
	ours := load(t, program)
	for nr, name := range tab.names {
		if name == "" {
			continue
		}
		var steps []*machine
		for i := range p.Rules {
			if r := p.Rules[i]; slices.Contains(r.Calls, name) {
				r.Calls = []string{name}
				steps = append(steps, assembled([]Rule{r}, undecided))
			}
		}
		for _, args := range p.classes(name) {
			for i := range args {
				args[i] &= limit
			}
			theirs := uint32(undecided)
			for i := 0; i < len(steps) && theirs == uint32(undecided); i++ {
				theirs = steps[i].run(t, tab.audit, uint32(nr), args)
			}
			if theirs == uint32(undecided) {
				theirs = p.Default.ret(a)
			}
			x := ours.run(t, tab.audit, uint32(nr), args)
			if x == retErrno { // the library has no errno 0
				x |= eperm
			}
			if x != theirs {
				t.Fatalf("%s %s: %s %#x: our program answers %#x, the library's %#x", p.Version, a, name, args, x, theirs)
			}
			compared++
		}
	}
	return compared
}

// differPlain compares whole programs, of a policy without conditions.
func differPlain(t *testing.T, p *Policy, tab *table, a Action) int {
	t.Helper()
	q := *p
	q.Rules = slices.DeleteFunc(slices.Clone(p.Rules), func(r Rule) bool { return len(r.Args) > 0 })
	if len(q.Rules) == 0 {
		return 0
	}
	byDefault := library.Action(q.Default.ret(a))
	if byDefault == library.ActionErrno|eperm { // it adds the errno itself
		byDefault = library.ActionErrno
	}
	insns, err := express(q.Rules, byDefault, tab, a).Assemble()
	if err != nil {
		t.Fatal(err)
	}
	theirs := newMachine(t, insns)
	program, err := q.assemble(tab, a)
	if err != nil {
		t.Fatal(err)
	}
	ours := load(t, program)
	for nr, name := range tab.names {
		x, y := ours.run(t, tab.audit, uint32(nr), [6]uint64{}), theirs.run(t, tab.audit, uint32(nr), [6]uint64{})
		if name != "" && x != y {
			t.Fatalf("%s %s: %s: our program answers %#x, the library's %#x", p.Version, a, name, x, y)
		}
	}
	return len(insns)
}

func TestSameAsTheLibrarysProgram(t *testing.T) {
	tab, err := tableOf(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range builtins {
		for _, a := range actions {
			linear := differPlain(t, &b.policy, tab, a)
			n := differ(t, &b.policy, tab, a, 0xffffffff)
			t.Logf("%s %s: %d calls compared; the library's list has %d instructions", b.policy.Version, a, n, linear)
			if n < 1000 {
				t.Errorf("only %d calls compared", n)
			}
		}
	}
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := random(r, named(tab), 1+r.IntN(40), true)
		p.Default = Outcome{Do: []Do{Allow, Deny, Log, Kill}[r.IntN(4)]}
		a := actions[r.IntN(len(actions))]
		differPlain(t, p, tab, a)
		differ(t, p, tab, a, ^uint64(0))
	}
}

// The next two tests are why the library's programs aren't used. They fail when
// that is no longer so.

func TestTheLibraryAllowsForeignCalls(t *testing.T) {
	tab, _ := tableOf(runtime.GOARCH)
	p := &Policy{Default: Outcome{Do: Allow}, Rules: []Rule{{Outcome: Outcome{Do: Deny}, Calls: []string{"bpf"}}}}
	insns, err := express(p.Rules, library.ActionAllow, tab, ActionErrno).Assemble()
	if err != nil {
		t.Fatal(err)
	}
	const i386, i386bpf = 0x40000003, 357
	if got := newMachine(t, insns).run(t, i386, i386bpf, [6]uint64{}); got != retAllow {
		t.Errorf("the library's program answers %#x", got)
	}
	program, _ := p.assemble(tab, ActionErrno)
	if got := load(t, program).run(t, i386, i386bpf, [6]uint64{}); got != retErrno|eperm {
		t.Errorf("our program answers %#x", got)
	}
}

// A condition leaves half an argument in the accumulator, and the rules behind it
// compare that with the numbers of their calls.
func TestTheLibraryTakesArgumentsForNumbers(t *testing.T) {
	tab, _ := tableOf(runtime.GOARCH)
	p := &Policy{Rules: []Rule{
		{Outcome: Outcome{Do: Allow}, Calls: []string{"ioctl"}, Args: []Cond{{Index: 1, Width: 64, Values: []uint64{7}}}},
		{Outcome: Outcome{Do: Allow}, Calls: []string{"read"}},
	}}
	insns, err := express(p.Rules, library.ActionErrno, tab, ActionErrno).Assemble()
	if err != nil {
		t.Fatal(err)
	}
	ioctl, _ := tab.lookup("ioctl")
	read, _ := tab.lookup("read")
	args := [6]uint64{0, uint64(read)}
	if got := newMachine(t, insns).run(t, tab.audit, uint32(ioctl), args); got != retAllow {
		t.Errorf("the library's program answers %#x", got)
	}
	program, _ := p.assemble(tab, ActionErrno)
	if got := load(t, program).run(t, tab.audit, uint32(ioctl), args); got != retErrno|eperm {
		t.Errorf("our program answers %#x", got)
	}
}
