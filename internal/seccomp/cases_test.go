package seccomp

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCasesAgreeWithDecide: the list that is shown decides as the policy does.
func TestCasesAgreeWithDecide(t *testing.T) {
	policies := []*Policy{Builtin("default"), Builtin("strict")}
	for seed := range uint64(4) {
		policies = append(policies, random(rand.New(rand.NewPCG(seed, 3)), amd64.Calls(), 60))
	}
	conditional := 0
	for _, p := range policies {
		for _, a := range actions {
			for _, name := range AllCalls() {
				if name == "" {
					continue
				}
				cases := p.Cases(name, a)
				if len(cases[len(cases)-1].Conds) != 0 {
					t.Fatalf("%s: the last case has conditions", name)
				}
				conditional += len(cases) - 1
				all := p.classes(name)
				for _, args := range all[:min(len(all), 20)] {
					i := slices.IndexFunc(cases, func(c Case) bool {
						holds, _ := (&Rule{Args: c.Conds}).holds(&args, allGiven)
						return holds
					})
					if got, want := cases[i].ret(a), p.Decide(name, args).ret(a); got != want {
						t.Fatalf("%s %s %#x: %#x, want %#x", p.Version, name, args, got, want)
					}
				}
			}
		}
	}
	if conditional < 100 {
		t.Errorf("only %d conditions were looked at", conditional)
	}
}

func TestConditionsInWords(t *testing.T) {
	for _, c := range []struct {
		call string
		cond Cond
		want string
	}{
		{"socket", Cond{Index: 0, Width: 32, Op: In, Values: []uint64{1, 2, 99}}, "arg 0 is AF_UNIX, AF_INET or 0x63"},
		{"socket", Cond{Index: 0, Width: 64, Op: Gt, Values: []uint64{40}}, "arg 0 (64 bits) > AF_VSOCK"},
		{"clone", Cond{Index: 0, Width: 64, Op: Eq, Mask: 0x10020000, Values: []uint64{0}}, "arg 0 (64 bits) & CLONE_NEWNS|CLONE_NEWUSER is 0"},
		{"clone", Cond{Index: 0, Width: 32, Op: Ne, Mask: 0x30000001, Values: []uint64{0}}, "arg 0 & 0x30000001 is not 0"},
		{"chmod", Cond{Index: 1, Width: 32, Op: Ne, Mask: 0o6000, Values: []uint64{0}}, "arg 1 & 06000 is not 0"},
		{"mmap", Cond{Index: 2, Width: 64, Op: Le, Values: []uint64{7}}, "arg 2 (64 bits) <= 7"},
	} {
		if got := c.cond.Words(c.call); got != c.want {
			t.Errorf("%s: %q, want %q", c.call, got, c.want)
		}
	}
}

// TestDisassembly has each instruction, each way to jump, and each kind of number.
func TestDisassembly(t *testing.T) {
	insn := func(op, jt, jf, k uint64) uint64 { return op<<48 | jt<<40 | jf<<32 | k }
	f := &Filter{table: &amd64, Program: []uint64{
		insn(opLoad, 0, 0, offArch), insn(opJeq, 0, 3, 0xc000003e),
		insn(opLoad, 0, 0, offNr), insn(opJge, 1, 0, x32Bit),
		insn(opJump, 0, 0, 1), insn(opRet, 0, 0, retKillProcess),
		insn(opJeq, 1, 2, 257), insn(opRet, 0, 0, retLog),
		insn(opLoad, 0, 0, offArgs+3*8+4), insn(opAnd, 0, 0, 0xff),
		insn(opJgt, 0, 1, 257), insn(opJge, 0, 1, 9), insn(opRet, 0, 0, retErrno|enosys),
		insn(opLoad, 0, 0, offArgs), insn(opJgt, 1, 0, 1), insn(opRet, 0, 0, retUserNotif), insn(opRet, 0, 0, retErrno|4000),
	}}
	const want = `          0  ld arch
          1  jne AUDIT_ARCH_X86_64, L1
          2  ld nr
          3  jge 0x40000000 x32, L1
          4  ja L2
L1:       5  ret kill
L2:       6  jeq 257 openat, L3, else L4
          7  ret log
L3:       8  ld arg3.high
L4:       9  and 0xff
         10  jle 0x101, L5
         11  jlt 0x9, L6
L5:      12  ret errno ENOSYS
L6:      13  ld arg0.low
         14  jgt 0x1, L7
         15  ret notify
L7:      16  ret 0x50fa0
`
	if got := f.Disassemble(); got != want {
		t.Errorf("%s", got)
	}
}
