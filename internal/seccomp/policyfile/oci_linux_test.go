package policyfile

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/seccomp"
)

// follows holds what we make of a profile against the interpreter: every call of the
// architecture, with arguments around every value that the profile compares with.
// Programs are held against Decide in package seccomp.
func follows(t *testing.T, profile *moby.Seccomp, on Target, most int) (through, refused int) {
	t.Helper()
	text, err := json.Marshal(profile)
	must.Do(t, err)
	p, err := Parse(text, "profile.json", on)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	tab, err := seccomp.TableOf(on.Arch)
	must.Do(t, err)
	for _, name := range tab.Calls() {
		// Of the profile itself, so that a condition that was dropped is noticed.
		all := argumentsAround(profile, name)
		step := max(1, len(all)/most)
		for i := 0; i < len(all); i += step {
			want, sure := interpret(profile, on, name, all[i])
			if !sure {
				t.Fatalf("%s %#x: entries contradict each other, and the reader took them\n%s", name, all[i], text)
			}
			if got := p.Decide(name, all[i]).Under(seccomp.ActionErrno); got != want {
				t.Fatalf("%s %#x on %+v: %s, want %s\n%s", name, all[i], on, got, want, text)
			}
			if want == "allow" {
				through++
			} else {
				refused++
			}
		}
	}
	return through, refused
}

// argumentsAround are arguments that a profile may tell apart for a call.
func argumentsAround(profile *moby.Seccomp, name string) [][6]uint64 {
	var per [6][]uint64
	for _, call := range profile.Syscalls {
		if !slices.Contains(call.Names, name) {
			continue
		}
		for _, a := range call.Args {
			for _, v := range []uint64{a.Value, a.ValueTwo} {
				per[a.Index] = append(per[a.Index], v, v-1, v+1, v|1<<32, v^1<<63, ^v, v&-v, a.Value&a.ValueTwo, 0, ^uint64(0))
			}
		}
	}
	all := [][6]uint64{{}, {1, 2, 3, 4, 5, 6}}
	for i := range per {
		slices.Sort(per[i])
		vs := slices.Compact(per[i])
		for _, base := range all[:min(len(all), 60)] {
			for _, v := range vs {
				base[i] = v
				all = append(all, base)
			}
		}
	}
	return all
}

var targets = []Target{{"amd64", Kernel{6, 18}}, {"arm64", Kernel{6, 18}}, {"amd64", Kernel{4, 7}}, {"arm64", Kernel{4, 8}}}

func TestMobysProfileDecidesAsItDoesForDocker(t *testing.T) {
	for _, on := range targets {
		profile := moby.DefaultProfile()
		through, refused := follows(t, profile, on, 100_000)
		if through < 300 || refused < 60 {
			t.Errorf("%+v: %d calls go through and %d don't", on, through, refused)
		}
	}
	// As it is shipped, byte for byte.
	text, err := json.Marshal(moby.DefaultProfile())
	must.Do(t, err)
	for _, c := range []struct {
		on   Target
		call string
		args [6]uint64
		want string
	}{
		{targets[0], "read", [6]uint64{}, "allow"},
		{targets[0], "ptrace", [6]uint64{}, "allow"},
		{targets[2], "ptrace", [6]uint64{}, "errno EPERM"},
		{targets[3], "ptrace", [6]uint64{}, "allow"},
		{targets[0], "arch_prctl", [6]uint64{}, "allow"},
		{targets[1], "arch_prctl", [6]uint64{}, "errno EPERM"},
		{targets[0], "clone3", [6]uint64{}, "errno ENOSYS"},
		{targets[0], "clone", [6]uint64{0x10000000}, "errno EPERM"},
		{targets[0], "clone", [6]uint64{0x01200011}, "allow"},
		{targets[0], "clone", [6]uint64{0x01200011, 0x10000000}, "allow"}, // s390 has the flags there
		{targets[0], "socket", [6]uint64{40}, "errno EPERM"},
		{targets[0], "socket", [6]uint64{1}, "allow"},
		{targets[0], "open_by_handle_at", [6]uint64{}, "errno EPERM"},
		{targets[0], "bpf", [6]uint64{}, "errno EPERM"},
		{targets[0], "made_up", [6]uint64{}, "errno ENOSYS"},
	} {
		p, err := Parse(text, "moby.json", c.on)
		must.Do(t, err)
		if got := p.Decide(c.call, c.args).Under(seccomp.ActionErrno); got != c.want {
			t.Errorf("%s %#x on %+v: %s, want %s", c.call, c.args, c.on, got, c.want)
		}
	}
}

// TestRandomProfiles: those that the reader refuses must be ones that contradict
// themselves, and not all.
func TestRandomProfiles(t *testing.T) {
	taken, contradicting := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		profile := randomProfile(r)
		text, err := json.Marshal(profile)
		must.Do(t, err)
		on := targets[r.IntN(len(targets))]
		_, err = Parse(text, "random.json", on)
		switch {
		case err == nil:
			taken++
			follows(t, profile, on, 300)
		case strings.Contains(err.Error(), "different answers"):
			contradicting++
		default:
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
	}
	if taken < 100 || contradicting < 10 {
		t.Errorf("%d profiles were taken, %d contradict themselves", taken, contradicting)
	}
}

func randomProfile(r *rand.Rand) *moby.Seccomp {
	names := []string{"socket", "ioctl", "clone", "ptrace", "personality", "mount", "open", "arch_prctl", "_llseek", "keyctl"}
	pick := func(words ...specs.LinuxSeccompAction) specs.LinuxSeccompAction { return words[r.IntN(len(words))] }
	action := func() specs.LinuxSeccompAction {
		return pick(specs.ActAllow, specs.ActAllow, specs.ActAllow, specs.ActErrno, specs.ActKill, specs.ActKillProcess, specs.ActLog)
	}
	errno := func(a specs.LinuxSeccompAction) *uint {
		n := uint(1 + 37*r.IntN(2))
		if a != specs.ActErrno || r.IntN(2) == 0 {
			return nil
		}
		return &n
	}
	p := &moby.Seccomp{}
	p.DefaultAction = action()
	p.DefaultErrnoRet = errno(p.DefaultAction)
	p.Syscalls = append(p.Syscalls, &moby.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: []string{"execve", "read"}, Action: specs.ActAllow}})
	for range 1 + r.IntN(12) {
		s := &moby.Syscall{}
		s.Action = action()
		s.ErrnoRet = errno(s.Action)
		for range 1 + r.IntN(3) {
			s.Names = append(s.Names, names[r.IntN(len(names))])
		}
		if r.IntN(4) > 0 {
			for range 1 + r.IntN(3) {
				s.Args = append(s.Args, randomArg(r))
			}
		}
		if r.IntN(4) == 0 {
			s.Includes = randomFilter(r)
		}
		if r.IntN(4) == 0 {
			s.Excludes = randomFilter(r)
		}
		p.Syscalls = append(p.Syscalls, s)
	}
	return p
}

func randomArg(r *rand.Rand) specs.LinuxSeccompArg {
	ops := []specs.LinuxSeccompOperator{specs.OpNotEqual, specs.OpLessThan, specs.OpLessEqual, specs.OpEqualTo, specs.OpEqualTo,
		specs.OpEqualTo, specs.OpGreaterEqual, specs.OpGreaterThan, specs.OpMaskedEqual}
	a := specs.LinuxSeccompArg{Index: uint(r.IntN(3)), Op: ops[r.IntN(len(ops))], Value: randomValue(r)}
	if a.Op == specs.OpMaskedEqual {
		a.ValueTwo = randomValue(r)
		if r.IntN(8) == 0 {
			a.Value = 0
		}
	}
	return a
}

func randomFilter(r *rand.Rand) *moby.Filter {
	f := &moby.Filter{}
	if r.IntN(3) == 0 {
		f.Caps = []string{"CAP_SYS_ADMIN"}
	}
	if r.IntN(2) == 0 {
		f.Arches = [][]string{{"amd64"}, {"arm64", "arm"}, {"s390x"}, {"x86", "amd64", "arm64"}}[r.IntN(4)]
	}
	if r.IntN(2) == 0 {
		f.MinKernel = &moby.KernelVersion{Kernel: 4, Major: uint64(7 + r.IntN(2))}
	}
	return f
}

func FuzzOCI(f *testing.F) {
	text, err := json.Marshal(moby.DefaultProfile())
	must.Do(f, err)
	f.Add(text)
	f.Add([]byte(docs))
	for seed := range uint64(8) {
		text, _ := json.Marshal(randomProfile(rand.New(rand.NewPCG(seed, 7))))
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !isJSON(text) {
			return
		}
		p, err := Parse(text, "f.json", targets[0])
		if err != nil {
			pe, ok := err.(*seccomp.PolicyError)
			if !ok || pe.Line > strings.Count(string(text), "\n")+1 {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		// What was taken, Docker's own types take, too, and decide alike.
		var profile moby.Seccomp
		if err := json.Unmarshal(text, &profile); err != nil {
			t.Fatalf("moby: %v", err)
		}
		for _, call := range profile.Syscalls {
			//lint:ignore SA1019 older profiles have it
			if old := call.Name; old != "" {
				call.Names = []string{old}
			}
		}
		for _, name := range seccomp.AllCalls() {
			all := argumentsAround(&profile, name)
			for _, args := range all[:min(len(all), 50)] {
				want, sure := interpret(&profile, targets[0], name, args)
				if got := p.Decide(name, args).Under(seccomp.ActionErrno); got != want || !sure {
					t.Fatalf("%s %#x: %s, want %s, sure %v", name, args, got, want, sure)
				}
			}
		}
		q, err := Parse([]byte(p.TOML()), "f.toml", Target{})
		if err != nil || q.Digest() != p.Digest() {
			t.Fatalf("printed and read again: %v\n%s", err, p.TOML())
		}
	})
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
