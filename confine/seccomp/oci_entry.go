package seccomp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// entry reads one of "syscalls", and leaves it out where it doesn't apply.
func (r *ociReader) entry(v value, name string) error {
	f, err := r.fields(v, "names", "name", "action", "errnoRet", "args", "includes", "excludes")
	if err != nil {
		return err
	}
	e := ociEntry{rule: Rule{Name: name}}
	if e.names, err = r.namesOf(v, f[0], f[1]); err != nil {
		return err
	}
	if f[2].kind == 0 {
		return r.mistake(v.at, "action is missing", `"action": "SCMP_ACT_ALLOW"`)
	}
	if e.rule.Outcome, e.whole, err = r.outcome(f[2], f[3]); err != nil {
		return err
	}
	for i, k := range v.keys {
		if k.name == "comment" && v.items[i].kind == '"' {
			e.rule.Reason = v.items[i].text
		}
	}
	conds, err := r.conditions(f[4])
	if err != nil {
		return err
	}
	applies, err := r.applies(f[5], f[6])
	if err != nil || !applies {
		return err
	}
	if e.rule.Outcome == r.policy.Default && e.whole == r.whole {
		return nil // it says nothing: runc leaves it out, too
	}
	if err := r.numbered(&e); err != nil || len(e.rule.Calls) == 0 {
		return err
	}
	if slices.ContainsFunc(conds, func(all []Cond) bool { return len(all) == 0 }) {
		conds = nil
	}
	if len(conds) == 0 {
		r.plain = append(r.plain, e.rule)
		return nil
	}
	if len(r.cases) > maxInstructions {
		return r.mistake(v.at, "there are more conditions than a filter can hold", "")
	}
	for _, all := range conds {
		rule := e.rule
		rule.Args = all
		r.cases = append(r.cases, ociCase{rule, v.at})
	}
	return nil
}

// namesOf reads "names", or the "name" of older profiles.
func (r *ociReader) namesOf(entry, names, name value) ([]value, error) {
	if name.text != "" && len(names.items) > 0 {
		return nil, r.mistake(name.at, "name and names are both there", "leave one of them out")
	}
	all, err := r.words(names)
	if err == nil && name.kind != 0 {
		_, err = r.word(name)
		all = []value{name}
	}
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, r.mistake(entry.at, "an entry needs the names of system calls", `"names": ["ptrace"]`)
	}
	for _, n := range all {
		if n.text == "" {
			return nil, r.mistake(n.at, "a system call has a name", "")
		}
	}
	return all, nil
}

// numbered keeps the names that have a number. What has none is refused under a
// policy that refuses by default, and let through under one that doesn't: so an
// entry that refuses such a call there can't be kept.
func (r *ociReader) numbered(e *ociEntry) error {
	through := func(o Outcome) bool { return o.Do == Allow || o.Do == Log }
	for _, n := range e.names {
		switch {
		case known(n.text):
			if !slices.Contains(e.rule.Calls, n.text) {
				e.rule.Calls = append(e.rule.Calls, n.text)
			}
		case strings.Contains(foreignCalls, " "+n.text+" "):
		case !through(r.policy.Default):
			r.notice(n.at, fmt.Sprintf("system call %q is not known and stays refused", n.text), r.meant(n.text))
		case !through(e.rule.Outcome):
			return r.mistake(n.at, fmt.Sprintf("unknown system call %q, which can't be refused when the default is to allow", n.text), didYouMean(n.text, callNames()))
		default:
			r.notice(n.at, fmt.Sprintf("system call %q is not known and is let through", n.text), r.meant(n.text))
		}
	}
	return nil
}

// meant is the nearest name of a call. A file of nothing but unknown names is searched
// for a while only.
func (r *ociReader) meant(name string) string {
	if len(r.policy.Notices) > 50 {
		return ""
	}
	return didYouMean(name, callNames())
}

// conditions gives alternatives, each a list of conditions that all must hold. When
// two are about the same argument, runc makes each condition an alternative of its
// own.
func (r *ociReader) conditions(v value) ([][]Cond, error) {
	args, err := r.list(v)
	if err != nil {
		return nil, err
	}
	var all []Cond
	var always []bool
	var times [6]int
	for _, arg := range args {
		c, holds, err := r.condition(arg)
		if err != nil {
			return nil, err
		}
		all, always = append(all, c), append(always, holds)
		times[c.Index]++
	}
	if len(all) == 0 {
		return nil, nil
	}
	var each [][]Cond
	var together []Cond
	for i, c := range all {
		alone := []Cond{c}
		if always[i] {
			alone = []Cond{}
		}
		each = append(each, alone)
		together = append(together, alone...)
	}
	if i := slices.IndexFunc(times[:], func(n int) bool { return n > 1 }); i >= 0 {
		r.notice(v.at, fmt.Sprintf("argument %d is asked about more than once: one of the conditions of this entry is enough, as with runc", i), "")
		return each, nil
	}
	return [][]Cond{together}, nil
}

// condition reads one of "args". libseccomp compares whole registers.
func (r *ociReader) condition(v value) (c Cond, always bool, err error) {
	f, err := r.fields(v, "index", "value", "valueTwo", "op")
	if err != nil {
		return c, false, err
	}
	if f[0].kind == 0 || f[3].kind == 0 {
		return c, false, r.mistake(v.at, "a condition needs an index and an op", `{ "index": 0, "op": "SCMP_CMP_EQ", "value": 1 }`)
	}
	index, err := r.number(f[0], 5)
	if err != nil {
		return c, false, err
	}
	one, err := r.number(f[1], ^uint64(0))
	if err != nil {
		return c, false, err
	}
	two, err := r.number(f[2], ^uint64(0))
	if err != nil {
		return c, false, err
	}
	word, err := r.word(f[3])
	if err != nil {
		return c, false, err
	}
	var names []string
	for _, o := range ociOps {
		names = append(names, o.name)
	}
	i := slices.Index(names, word)
	if i < 0 {
		return c, false, r.mistake(f[3].at, fmt.Sprintf("unknown op %q", word), didYouMean(word, names))
	}
	c = Cond{Index: uint8(index), Width: 64, Op: ociOps[i].op, Values: []uint64{one}}
	if word != maskedEq {
		if two != 0 {
			return c, false, r.mistake(f[2].at, "valueTwo says nothing with "+word, maskedEq+" compares with it what is left of the argument under the mask value")
		}
		return c, false, nil
	}
	// libseccomp takes the bits outside of the mask from the value, too.
	c.Values = []uint64{two & one}
	if c.Mask = one; one == ^uint64(0) {
		c.Mask = 0
	}
	return c, one == 0, nil
}

// applies says whether an entry is meant for the target: no capabilities, its
// architecture, its kernel. As Docker's daemon does.
func (r *ociReader) applies(includes, excludes value) (bool, error) {
	in, err := r.filter(includes)
	if err != nil {
		return false, err
	}
	out, err := r.filter(excludes)
	if err != nil {
		return false, err
	}
	arch := func(v value) bool { return v.text == r.on.Arch }
	switch {
	case len(in.caps) > 0, len(in.arches) > 0 && !slices.ContainsFunc(in.arches, arch), slices.ContainsFunc(out.arches, arch):
		return false, nil
	}
	for _, f := range []struct {
		kernel value
		want   bool
	}{{out.kernel, false}, {in.kernel, true}} {
		if f.kernel.kind == 0 {
			continue
		}
		if reached, err := r.reached(f.kernel); err != nil || reached != f.want {
			return false, err
		}
	}
	return true, nil
}

type ociFilter struct {
	caps, arches []value
	kernel       value
}

func (r *ociReader) filter(v value) (f ociFilter, err error) {
	if v.kind == 0 {
		return f, nil
	}
	parts, err := r.fields(v, "caps", "arches", "minKernel")
	if err != nil {
		return f, err
	}
	if f.caps, err = r.words(parts[0]); err != nil {
		return f, err
	}
	for _, c := range f.caps {
		if !strings.HasPrefix(c.text, "CAP_") {
			return f, r.mistake(c.at, fmt.Sprintf("%q is no capability", c.text), "CAP_SYS_ADMIN is one")
		}
	}
	if f.arches, err = r.words(parts[1]); err != nil {
		return f, err
	}
	for _, a := range f.arches {
		if !slices.Contains(filterArches[:], a.text) {
			return f, r.mistake(a.at, fmt.Sprintf("unknown architecture %q", a.text), didYouMean(a.text, filterArches[:]))
		}
	}
	f.kernel = parts[2]
	if f.kernel.kind != 0 && (f.kernel.kind != '"' || f.kernel.text != "") {
		_, err = r.kernel(f.kernel)
	}
	return f, err
}

// reached says whether the target's kernel is at least that one.
func (r *ociReader) reached(v value) (bool, error) {
	if v.text == "" {
		return true, nil // Docker takes it for 0.0
	}
	least, err := r.kernel(v)
	if err == nil && r.on.Kernel == (Kernel{}) {
		err = r.mistake(v.at, "the entry depends on the kernel's version, which is not known", "")
	}
	return r.on.Kernel.atLeast(least), err
}

func (r *ociReader) kernel(v value) (Kernel, error) {
	first, second, two := strings.Cut(v.text, ".")
	major, err := strconv.ParseUint(first, 10, 8)
	minor, err2 := strconv.ParseUint(second, 10, 8)
	if v.kind != '"' || !two || err != nil || err2 != nil || major+minor == 0 {
		return Kernel{}, r.mistake(v.at, fmt.Sprintf("%q is no kernel version", v.text), `"4.8" is one`)
	}
	return Kernel{int(major), int(minor)}, nil
}
