package policyfile

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/located"
	"github.com/confine-run/confine/internal/seccomp"
)

// ociReader makes a policy of a profile in Docker's format, or of an OCI runtime
// configuration's linux.seccomp. It decides what runc and libseccomp would decide
// for a container without capabilities, and what it can't decide so is an error.
type ociReader struct {
	*document
	on     Target
	policy seccomp.Policy
	whole  bool           // of the default action, see ociActions
	plain  []seccomp.Rule // entries without conditions: these decide first, as with libseccomp
	cases  []ociCase      // entries with conditions
}

// ociCase is an entry under conditions.
type ociCase struct {
	rule seccomp.Rule
	at   int
}

func parseOCI(d *document, on Target) *seccomp.Policy {
	r := &ociReader{document: d, on: on, policy: seccomp.Policy{Arch: on.Arch}}
	top := r.readJSON()
	if slices.ContainsFunc(top.Keys, func(k located.Key) bool { return k.Name == "ociVersion" }) {
		r.fail(top.At, "this is a whole runtime configuration", "its linux.seccomp is the policy: jq .linux.seccomp")
	}
	f := r.fields(top, "defaultAction", "defaultErrnoRet", "architectures", "archMap", "flags", "listenerPath", "listenerMetadata", "syscalls")
	if f[0].Kind == 0 {
		r.fail(top.At, "defaultAction is missing", `"defaultAction": "SCMP_ACT_ERRNO" refuses what no entry names`)
	}
	r.policy.Default, r.whole = r.outcome(f[0], f[1])
	r.architectures(f[2], f[3])
	r.flags(f[4])
	for _, listener := range f[5:7] {
		if r.word(listener) != "" {
			r.fail(listener.At, "a listener can't be given", "confine listens itself, and names refused calls in the report")
		}
	}
	for i, item := range r.list(f[7]) {
		r.entry(item, "entry "+strconv.Itoa(i+1))
	}
	r.agree()
	r.policy.Rules = r.plain
	for i := range r.cases {
		r.policy.Rules = append(r.policy.Rules, r.cases[i].rule)
	}
	for _, word := range []string{"SCMP_ACT_KILL", "SCMP_ACT_KILL_THREAD"} {
		if at := bytes.Index(r.text, []byte(`"`+word+`"`)); at >= 0 {
			r.notice(at, word+" ends the whole process here, not one thread of it", "", false)
			break
		}
	}
	return &r.policy
}

func (r *ociReader) notice(at int, text, hint string, doubtful bool) {
	line, column := r.lines.Place(at)
	r.policy.Notices = append(r.policy.Notices, seccomp.Notice{Line: line, Column: column, Text: text, Hint: hint, Doubtful: doubtful})
}

// names are those of a table's entries.
func names[T any](table []T, name func(*T) string) (all []string) {
	for i := range table {
		all = append(all, name(&table[i]))
	}
	return all
}

// outcome reads an action with its errno.
func (r *ociReader) outcome(action, errno value) (o seccomp.Outcome, whole bool) {
	a := &ociActions[r.oneOf(action, "action", names(ociActions[:], func(a *ociAction) string { return a.name }))]
	if a.cant != "" {
		r.fail(action.At, a.name+" can't be done", a.cant)
	}
	o.Do = a.does
	switch {
	case o.Do != seccomp.Errno && errno.Kind != 0:
		r.fail(errno.At, a.name+" gives no errno", "SCMP_ACT_ERRNO does")
	case o.Do != seccomp.Errno:
	case errno.Kind == 0:
		o.Errno = eperm
	default:
		n := uint16(r.number(errno, 4095))
		switch {
		case n == 0:
			r.fail(errno.At, "errno 0 would answer with success what was not done", "1 is EPERM, 38 is ENOSYS")
		case seccomp.ErrnoName(n) == "?":
			r.fail(errno.At, fmt.Sprintf("Linux has no errno %d", n), "1 is EPERM, 38 is ENOSYS")
		}
		o.Errno = n
	}
	return o, a.whole
}

// architectures tells which of them stay refused. That of the host is meant whether
// it is named or not, as with libseccomp.
func (r *ociReader) architectures(list, mapped value) {
	if len(list.Items) > 0 && len(mapped.Items) > 0 {
		r.fail(mapped.At, "architectures and archMap are both there", "leave one of them out")
	}
	known := names(ociArches[:], func(a *ociArch) string { return a.name })
	goarch := func(v value) string { return ociArches[r.oneOf(v, "architecture", known)].goarch }
	named := r.words(list)
	for _, item := range r.list(mapped) {
		f := r.fields(item, "architecture", "subArchitectures")
		below := r.words(f[1])
		if f[0].Kind != located.String {
			r.fail(item.At, "architecture is missing", "")
		}
		own := goarch(f[0])
		for _, sub := range below {
			goarch(sub)
		}
		if own == r.on.Arch {
			named = below
		}
	}
	var foreign []string
	at := 0
	for _, v := range named {
		if goarch(v) != r.on.Arch {
			if foreign = append(foreign, v.Text); len(foreign) == 1 {
				at = v.At
			}
		}
	}
	if len(foreign) > 0 {
		r.notice(at, "calls of "+strings.Join(foreign, ", ")+" stay refused, as in every policy", "", false)
	}
}

func (r *ociReader) flags(v value) {
	known := names(ociFlags[:], func(f *ociFlag) string { return f.name })
	for _, item := range r.words(v) {
		if f := &ociFlags[r.oneOf(item, "flag", known)]; f.cant != "" {
			r.fail(item.At, f.name+" can't be done", f.cant)
		}
	}
}

// agree refuses entries for one call that can hold together and say different things.
// Which of them decides then depends on how libseccomp builds its tree.
func (r *ociReader) agree() {
	plain := map[string]bool{}
	for i := range r.plain {
		for _, name := range r.plain[i].Calls {
			plain[name] = true
		}
	}
	byCall := map[string][]int{}
	for i := range r.cases {
		for _, name := range r.cases[i].rule.Calls {
			if plain[name] {
				continue // that decides, whatever the conditions are
			}
			for _, j := range byCall[name] {
				a, b := &r.cases[j].rule, &r.cases[i].rule
				if a.Outcome != b.Outcome && !apart(a.Args, b.Args) {
					r.fail(r.cases[i].at, strconv.Quote(name)+" gets different answers from this entry and from "+a.Name+
						", and their conditions can hold together", "write conditions that can't, or one entry without any")
				}
			}
			byCall[name] = append(byCall[name], i)
		}
	}
}

// apart says whether two lists of conditions can't both hold. It may miss that they
// can't, never that they can.
func apart(a, b []seccomp.Cond) bool {
	return slices.ContainsFunc(a, func(c seccomp.Cond) bool {
		return slices.ContainsFunc(b, func(d seccomp.Cond) bool { return c.Index == d.Index && exclude(c, d) })
	})
}

// exclude is for conditions as condition makes them: 64 bits wide, of one value.
func exclude(c, d seccomp.Cond) bool {
	const eq, ne = seccomp.Eq, seccomp.Ne
	cLow, cHigh, cRange := between(c)
	dLow, dHigh, dRange := between(d)
	switch {
	case c.Op == ne || d.Op == ne:
		return (c.Op == eq || d.Op == eq) && c.Mask == 0 && d.Mask == 0 && c.Values[0] == d.Values[0]
	case cRange && dRange:
		return cLow > cHigh || dLow > dHigh || cHigh < dLow || dHigh < cLow
	case c.Op == eq && d.Op == eq: // at least one has a mask
		both := c.Bits() & d.Bits()
		return c.Values[0]&both != d.Values[0]&both
	}
	return false
}

// between gives the arguments for which the condition holds, where they are a run.
func between(c seccomp.Cond) (low, high uint64, is bool) {
	const most = ^uint64(0)
	v := c.Values[0]
	switch {
	case c.Mask != 0:
		return 0, 0, false
	case c.Op == seccomp.Eq:
		return v, v, true
	case c.Op == seccomp.Le:
		return 0, v, true
	case c.Op == seccomp.Ge:
		return v, most, true
	case c.Op == seccomp.Lt && v == 0, c.Op == seccomp.Gt && v == most:
		return 1, 0, true // never
	case c.Op == seccomp.Lt:
		return 0, v - 1, true
	case c.Op == seccomp.Gt:
		return v + 1, most, true
	}
	return 0, 0, false
}
