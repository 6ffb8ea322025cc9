package seccomp

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// random makes a policy from a seed.
func random(r *rand.Rand, names []string, rules int) *Policy {
	outcomes := []Outcome{{Do: Allow}, {Do: Deny}, {Do: Log}, {Do: Kill}, {Do: Refuse}, {Errno, enosys}, {Errno, 13}}
	p := &Policy{Kind: "file", Version: "random", Default: outcomes[r.IntN(len(outcomes))]}
	for range rules {
		rule := Rule{Name: "random", Outcome: outcomes[r.IntN(len(outcomes))]}
		for range 1 + r.IntN(12) {
			rule.Calls = append(rule.Calls, names[r.IntN(len(names))])
		}
		slices.Sort(rule.Calls)
		rule.Calls = slices.Compact(rule.Calls)
		if r.IntN(3) > 0 {
			for range 1 + r.IntN(3) {
				rule.Args = append(rule.Args, randomCond(r))
			}
		}
		p.Rules = append(p.Rules, rule)
	}
	return p
}

func randomCond(r *rand.Rand) Cond {
	c := Cond{Index: uint8(r.IntN(6)), Width: 64, Op: Op(r.IntN(len(Ops)))}
	if r.IntN(2) == 0 {
		c.Width = 32
	}
	n := 1
	if c.Op == In || c.Op == NotIn {
		n += r.IntN(6)
	}
	if r.IntN(3) == 0 {
		c.Mask = randomValue(r) & c.Bits()
	}
	for range n {
		c.Values = append(c.Values, randomValue(r)&c.Bits())
	}
	return c
}

func randomValue(r *rand.Rand) uint64 {
	v := r.Uint64()
	switch r.IntN(6) {
	case 0:
		return v & 7
	case 1:
		return v & 0xffffffff
	case 2:
		return v << 32
	case 3:
		return ^uint64(0)
	case 4:
		return 1 << (v & 63)
	}
	return v
}

// checkRandom holds a random policy's program against Decide, over every call and
// a sample of its classes of arguments.
func checkRandom(t *testing.T, seed uint64, rules int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	tab := tables[r.IntN(2)]
	p := random(r, tab.Calls(), rules)
	a := actions[r.IntN(len(actions))]
	program, err := p.assemble(tab, a)
	if err != nil {
		if _, tooLong := err.(*SizeError); tooLong {
			return
		}
		t.Fatal(err)
	}
	m := load(t, program)
	check := func(audit, nr uint32, args [6]uint64) {
		if want, got := p.number(tab, audit, nr, args), m.run(t, audit, nr, args); got != want.ret(a) {
			t.Fatalf("seed %d, %d instructions: call %#x %#x on %#x: the program answers %#x, the policy %s by rule %s",
				seed, len(program), nr, args, audit, got, want.Under(a), want.Rule)
		}
	}
	for nr := range uint32(len(tab.names) + 8) {
		if int(nr) < len(tab.names) && tab.names[nr] != "" {
			all := p.classes(tab.names[nr])
			for range min(40, len(all)) {
				check(tab.audit, nr, all[r.IntN(len(all))])
			}
		}
		check(tab.audit, nr, [6]uint64{})
		check(0x40000003, nr, [6]uint64{})
		check(tab.audit, nr|x32Bit, [6]uint64{})
	}
	if f := p.number(tab, 0x40000003, 1, [6]uint64{}).Under(a); f == "allow" || f == "log" {
		t.Fatal("a foreign call is allowed")
	}
}

func TestRandomPolicies(t *testing.T) {
	longest := 0
	for seed := range uint64(24) {
		rules := 1 + int(seed)*8
		checkRandom(t, seed, rules)
		p := random(rand.New(rand.NewPCG(seed, 1)), amd64.Calls(), rules)
		program, err := p.assemble(&amd64, ActionErrno)
		if err == nil {
			longest = max(longest, len(program))
		}
	}
	if longest < 1000 {
		t.Errorf("the longest program had %d instructions: long jumps were not tested", longest)
	}
}

func FuzzAssemble(f *testing.F) {
	f.Add(uint64(1), uint8(3))
	f.Add(uint64(2), uint8(200))
	f.Fuzz(func(t *testing.T, seed uint64, rules uint8) { checkRandom(t, seed, int(rules)) })
}

func TestTooLongAPolicyIsAnError(t *testing.T) {
	p := random(rand.New(rand.NewPCG(1, 1)), amd64.Calls(), 4000)
	_, err := p.Compile(ActionErrno, "amd64")
	if _, ok := err.(*SizeError); !ok {
		t.Errorf("%v", err)
	}
}
