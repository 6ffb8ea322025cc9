package seccomp

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestCasesAreWhatDecideSays: the list that is shown decides as the policy does.
func TestCasesAreWhatDecideSays(t *testing.T) {
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

// TestDisassemblyIsTheProgram reads the text again, with labels for jumps, and runs
// it: it has to decide as the program does.
func TestDisassemblyIsTheProgram(t *testing.T) {
	for _, p := range []*Policy{Builtin("default"), Builtin("strict"), random(rand.New(rand.NewPCG(5, 5)), amd64.Calls(), 60)} {
		for _, tab := range tables {
			f := compiled(t, p, ActionKill, tab.arch)
			text := f.Disassemble()
			if p == Builtin("default") && tab == &amd64 {
				for _, want := range []string{"0  ld arch\n", "1  jne AUDIT_ARCH_X86_64, L", "jge 0x40000000 x32, L", "ret allow\n", "ret kill\n",
					"ret errno ENOSYS\n", "ld arg0.low\n"} {
					if !strings.Contains(text, want) {
						t.Errorf("%q is missing in\n%s", want, text)
					}
				}
			}
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			if len(lines) != len(f.Program) {
				t.Fatalf("%d lines for %d instructions", len(lines), len(f.Program))
			}
			again := readAssembly(t, lines, tab)
			if !slices.Equal(again, f.Program) {
				for i := range again {
					if again[i] != f.Program[i] {
						t.Fatalf("%s: %#x is read again as %#x", lines[i], f.Program[i], again[i])
					}
				}
			}
		}
	}
}

var asmLine = regexp.MustCompile(`^(L\d+:)? +(\d+)  (\w+) ?([^,]*)(?:, (L\d+))?(?:, else (L\d+))?$`)

func readAssembly(t *testing.T, lines []string, tab *Table) (program []uint64) {
	t.Helper()
	at := map[string]int{}
	var parts [][]string
	for i, l := range lines {
		m := asmLine.FindStringSubmatch(l)
		if m == nil || m[2] != strconv.Itoa(i) {
			t.Fatalf("%q can't be read", l)
		}
		if m[1] != "" {
			at[strings.TrimSuffix(m[1], ":")] = i
		}
		parts = append(parts, m)
	}
	for i, m := range parts {
		jump := func(label string) uint64 {
			to, ok := at[label]
			if !ok || to <= i {
				t.Fatalf("%q jumps nowhere", lines[i])
			}
			return uint64(to - i - 1)
		}
		number := func(s string) uint64 {
			s, name, named := strings.Cut(s, " ")
			n, err := strconv.ParseUint(s, 0, 32)
			if s == "AUDIT_ARCH_X86_64" || s == "AUDIT_ARCH_AARCH64" {
				return uint64(tab.audit)
			}
			if err != nil || named && n != x32Bit && tab.names[n] != name {
				t.Fatalf("%q: %q", lines[i], s)
			}
			return n
		}
		var w uint64
		switch op := m[3]; op {
		case "ld":
			k := map[string]uint64{"nr": 0, "arch": 4}[m[4]]
			if arg, ok := strings.CutPrefix(m[4], "arg"); ok {
				k = offArgs + 8*uint64(arg[0]-'0')
				if strings.HasSuffix(arg, ".high") {
					k += 4
				}
			}
			w = opLoad<<48 | k
		case "and":
			w = opAnd<<48 | number(m[4])
		case "ja":
			w = opJump<<48 | jump(m[4])
		case "ret":
			k := map[string]uint64{"allow": retAllow, "log": retLog, "kill": retKillProcess}[m[4]]
			if name, ok := strings.CutPrefix(m[4], "errno "); ok {
				n, _ := ErrnoNumber(name)
				k = retErrno | uint64(n)
			}
			w = opRet<<48 | k
		default:
			ops := map[string]uint64{"jeq": opJeq, "jne": opJeq, "jgt": opJgt, "jle": opJgt, "jge": opJge, "jlt": opJge}
			jt, jf := jump(m[5]), uint64(0)
			if op == "jne" || op == "jle" || op == "jlt" {
				jt, jf = jf, jt
			} else if m[6] != "" {
				jf = jump(m[6])
			}
			w = ops[op]<<48 | jt<<40 | jf<<32 | number(m[4])
		}
		program = append(program, w)
	}
	return program
}
