package policyfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/located"
	"github.com/confine-run/confine/internal/seccomp"
)

// entry reads one of "syscalls", and leaves it out where it doesn't apply.
func (r *ociReader) entry(v value, name string) {
	f := r.fields(v, "names", "name", "action", "errnoRet", "args", "includes", "excludes")
	calls := r.namesOf(v, f[0], f[1])
	if f[2].Kind == 0 {
		r.fail(v.At, "action is missing", `"action": "SCMP_ACT_ALLOW"`)
	}
	rule, whole := seccomp.Rule{Name: name}, false
	rule.Outcome, whole = r.outcome(f[2], f[3])
	for i, k := range v.Keys {
		if k.Name == "comment" && v.Items[i].Kind == located.String {
			rule.Reason = v.Items[i].Text
		}
	}
	conds := r.conditions(f[4])
	if !r.applies(f[5], f[6]) {
		return
	}
	if rule.Outcome == r.policy.Default && whole == r.whole {
		return // it says nothing: runc leaves it out, too
	}
	if rule.Calls = r.numbered(calls, rule.Outcome); len(rule.Calls) == 0 {
		return
	}
	if len(conds) == 0 || slices.ContainsFunc(conds, func(all []seccomp.Cond) bool { return len(all) == 0 }) {
		r.plain = append(r.plain, rule)
		return
	}
	if len(r.cases) > mostCases {
		r.fail(v.At, "there are more conditions than a filter can hold", "")
	}
	for _, rule.Args = range conds {
		r.cases = append(r.cases, ociCase{rule, v.At})
	}
}

const mostCases = 4096 // instructions, BPF_MAXINSNS

// namesOf reads "names", or the "name" of older profiles.
func (r *ociReader) namesOf(entry, names, name value) []value {
	if name.Text != "" && len(names.Items) > 0 {
		r.fail(name.At, "name and names are both there", "leave one of them out")
	}
	all := r.words(names)
	if name.Kind != 0 {
		r.word(name)
		all = []value{name}
	}
	if len(all) == 0 {
		r.fail(entry.At, "an entry needs the names of system calls", `"names": ["ptrace"]`)
	}
	for _, n := range all {
		if n.Text == "" {
			r.fail(n.At, "a system call has a name", "")
		}
	}
	return all
}

// numbered keeps the names that have a number. What has none is refused under a
// policy that refuses by default, and let through under one that doesn't: so an
// entry that refuses such a call there can't be kept.
func (r *ociReader) numbered(names []value, o seccomp.Outcome) (calls []string) {
	for _, n := range names {
		switch refused := !r.policy.Default.LetsThrough(); {
		case seccomp.Known(n.Text):
			if !slices.Contains(calls, n.Text) {
				calls = append(calls, n.Text)
			}
		case strings.Contains(foreignCalls, " "+n.Text+" "):
		case refused:
			r.notice(n.At, fmt.Sprintf("system call %q is not known and stays refused", n.Text), r.nearest(n.Text), true)
		case o.LetsThrough():
			r.notice(n.At, fmt.Sprintf("system call %q is not known and is let through", n.Text), r.nearest(n.Text), true)
		default:
			r.fail(n.At, fmt.Sprintf("unknown system call %q, which can't be refused when the default is to allow", n.Text), hint.DidYouMean(n.Text, seccomp.AllCalls()))
		}
	}
	return calls
}

// nearest is the nearest name of a call. A file of nothing but unknown names is searched
// for a while only.
func (r *ociReader) nearest(name string) string {
	if len(r.policy.Notices) > 50 {
		return ""
	}
	return hint.DidYouMean(name, seccomp.AllCalls())
}

// conditions gives alternatives, each a list of conditions that all must hold. When
// two are about the same argument, runc makes each condition an alternative of its
// own.
func (r *ociReader) conditions(v value) (each [][]seccomp.Cond) {
	var together []seccomp.Cond
	var times [6]int
	for _, arg := range r.list(v) {
		c, always := r.condition(arg)
		alone := []seccomp.Cond{c}
		if always {
			alone = nil
		}
		each, together = append(each, alone), append(together, alone...)
		times[c.Index]++
	}
	if i := slices.IndexFunc(times[:], func(n int) bool { return n > 1 }); i >= 0 {
		r.notice(v.At, fmt.Sprintf("argument %d is asked about more than once: one of the conditions of this entry is enough, as with runc", i), "", true)
		return each
	}
	return [][]seccomp.Cond{together}
}

// condition reads one of "args". libseccomp compares whole registers.
func (r *ociReader) condition(v value) (c seccomp.Cond, always bool) {
	f := r.fields(v, "index", "value", "valueTwo", "op")
	if f[0].Kind == 0 || f[3].Kind == 0 {
		r.fail(v.At, "a condition needs an index and an op", `{ "index": 0, "op": "SCMP_CMP_EQ", "value": 1 }`)
	}
	index, one, two := r.number(f[0], 5), r.number(f[1], ^uint64(0)), r.number(f[2], ^uint64(0))
	op := &ociOps[r.oneOf(f[3], "op", names(ociOps[:], func(o *ociOp) string { return o.name }))]
	c = seccomp.Cond{Index: uint8(index), Width: 64, Op: op.op, Values: []uint64{one}}
	if op.name != maskedEq {
		if two != 0 {
			r.fail(f[2].At, "valueTwo says nothing with "+op.name, maskedEq+" compares with it what is left of the argument under the mask value")
		}
		return c, false
	}
	// libseccomp takes the bits outside of the mask from the value, too.
	c.Values = []uint64{two & one}
	if c.Mask = one; one == ^uint64(0) {
		c.Mask = 0
	}
	return c, one == 0
}

// applies says whether an entry is meant for the target: no capabilities, its
// architecture, its kernel. As Docker's daemon does.
func (r *ociReader) applies(includes, excludes value) bool {
	in, out := r.filter(includes), r.filter(excludes)
	arch := func(v value) bool { return v.Text == r.on.Arch }
	switch {
	case len(in.caps) > 0, len(in.arches) > 0 && !slices.ContainsFunc(in.arches, arch), slices.ContainsFunc(out.arches, arch):
		return false
	case out.kernel.Kind != 0 && r.reached(out.kernel), in.kernel.Kind != 0 && !r.reached(in.kernel):
		return false
	}
	return true
}

type ociFilter struct {
	caps, arches []value
	kernel       value
}

func (r *ociReader) filter(v value) (f ociFilter) {
	if v.Kind == 0 {
		return f
	}
	parts := r.fields(v, "caps", "arches", "minKernel")
	f = ociFilter{r.words(parts[0]), r.words(parts[1]), parts[2]}
	for _, c := range f.caps {
		if !strings.HasPrefix(c.Text, "CAP_") {
			r.fail(c.At, fmt.Sprintf("%q is no capability", c.Text), "CAP_SYS_ADMIN is one")
		}
	}
	for _, a := range f.arches {
		r.oneOf(a, "architecture", filterArches[:])
	}
	if f.kernel.Kind != 0 && (f.kernel.Kind != located.String || f.kernel.Text != "") {
		r.kernel(f.kernel)
	}
	return f
}

// reached says whether the target's kernel is at least that one.
func (r *ociReader) reached(v value) bool {
	if v.Text == "" {
		return true // Docker takes it for 0.0
	}
	least := r.kernel(v)
	if r.on.Kernel == (Kernel{}) {
		r.fail(v.At, "the entry depends on the kernel's version, which is not known", "")
	}
	return r.on.Kernel.atLeast(least)
}

func (r *ociReader) kernel(v value) Kernel {
	first, second, two := strings.Cut(v.Text, ".")
	major, err := strconv.ParseUint(first, 10, 8)
	minor, err2 := strconv.ParseUint(second, 10, 8)
	if v.Kind != located.String || !two || err != nil || err2 != nil || major+minor == 0 {
		r.fail(v.At, fmt.Sprintf("%q is no kernel version", v.Text), `"4.8" is one`)
	}
	return Kernel{int(major), int(minor)}
}
