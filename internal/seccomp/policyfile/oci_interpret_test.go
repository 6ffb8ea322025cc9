package policyfile

import (
	"slices"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/confine-run/confine/internal/seccomp"
)

// interpret decides one call by a profile, written down from what Docker's daemon,
// runc and libseccomp do, with moby's own types and none of ours. It knows nothing
// of entries that contradict each other: those are told by ok.
func interpret(p *moby.Seccomp, on Target, name string, args [6]uint64) (ret string, ok bool) {
	var hits []string // of entries with conditions that hold
	first, unconditional := "", false
	otherwise := ociWord(p.DefaultAction, p.DefaultErrnoRet)
	for _, call := range p.Syscalls {
		if !meant(call, on) || !slices.Contains(call.Names, name) {
			continue
		}
		ret := ociWord(call.Action, call.ErrnoRet)
		if ret == otherwise && threadOnly(call.Action) == threadOnly(p.DefaultAction) {
			continue // runc skips what says the same as the default
		}
		rules := asRules(call.Args)
		if len(rules) == 0 {
			rules = [][]specs.LinuxSeccompArg{nil}
		}
		for _, rule := range rules {
			empty, all := true, true
			for _, a := range rule {
				if a.Op == specs.OpMaskedEqual && a.Value == 0 {
					continue // libseccomp drops a comparison of no bits
				}
				empty = false
				all = all && compares(a, args[a.Index])
			}
			switch {
			case empty && !unconditional:
				first, unconditional = ret, true
			case !empty && all:
				hits = append(hits, ret)
			}
		}
	}
	switch {
	case unconditional:
		return first, true
	case len(hits) == 0:
		return otherwise, true
	}
	return hits[0], !slices.ContainsFunc(hits, func(h string) bool { return h != hits[0] })
}

// asRules: two conditions on one argument make runc add each as a rule.
func asRules(args []specs.LinuxSeccompArg) (all [][]specs.LinuxSeccompArg) {
	seen := map[uint]int{}
	for _, a := range args {
		seen[a.Index]++
		all = append(all, []specs.LinuxSeccompArg{a})
	}
	if len(args) > 0 && len(seen) == len(args) {
		return [][]specs.LinuxSeccompArg{args}
	}
	return all
}

func compares(a specs.LinuxSeccompArg, arg uint64) bool {
	switch a.Op {
	case specs.OpNotEqual:
		return arg != a.Value
	case specs.OpLessThan:
		return arg < a.Value
	case specs.OpLessEqual:
		return arg <= a.Value
	case specs.OpEqualTo:
		return arg == a.Value
	case specs.OpGreaterEqual:
		return arg >= a.Value
	case specs.OpGreaterThan:
		return arg > a.Value
	case specs.OpMaskedEqual:
		return arg&a.Value == a.ValueTwo&a.Value
	}
	panic(a.Op)
}

func meant(call *moby.Syscall, on Target) bool {
	reached := func(k *moby.KernelVersion) bool {
		return uint64(on.Kernel.Major)<<8+uint64(on.Kernel.Minor) >= k.Kernel<<8+k.Major
	}
	if x := call.Excludes; x != nil {
		if slices.Contains(x.Arches, on.Arch) || x.MinKernel != nil && reached(x.MinKernel) {
			return false
		}
	}
	if i := call.Includes; i != nil {
		if len(i.Caps) > 0 || len(i.Arches) > 0 && !slices.Contains(i.Arches, on.Arch) || i.MinKernel != nil && !reached(i.MinKernel) {
			return false
		}
	}
	return true
}

func threadOnly(a specs.LinuxSeccompAction) bool {
	return a == specs.ActKill || a == specs.ActKillThread
}

// ociWord is what an action comes to under --seccomp-action errno.
func ociWord(a specs.LinuxSeccompAction, errno *uint) string {
	switch {
	case a == specs.ActAllow:
		return "allow"
	case a == specs.ActLog:
		return "log"
	case a == specs.ActErrno && errno != nil:
		return "errno " + seccomp.ErrnoName(uint16(*errno))
	case a == specs.ActErrno:
		return "errno EPERM"
	}
	return "kill" // the whole process, where libseccomp ends a thread
}
