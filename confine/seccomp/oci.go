package seccomp

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// isJSON: no policy in TOML starts with a brace.
func isJSON(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 0 && text[0] == '{'
}

// ociReader makes a policy of a profile in Docker's format, or of an OCI runtime
// configuration's linux.seccomp. It decides what runc and libseccomp would decide
// for a container without capabilities, and what it can't decide so is an error.
type ociReader struct {
	document
	on     Target
	policy Policy
	whole  bool      // of the default action, see ociActions
	plain  []Rule    // entries without conditions: these decide first, as with libseccomp
	cases  []ociCase // entries with conditions
}

// ociEntry is one of the list "syscalls".
type ociEntry struct {
	rule  Rule
	whole bool
	names []value
}

func parseOCI(text []byte, name string, on Target) (*Policy, error) {
	if _, err := tableOf(on.Arch); err != nil {
		return nil, err
	}
	r := &ociReader{document: document{name: name, text: text}, on: on}
	top, err := r.read()
	if err == nil {
		err = r.profile(top)
	}
	if err != nil {
		return nil, err
	}
	if bad := r.policy.startable(); bad != nil {
		return nil, &PolicyError{File: name, Msg: bad.msg, Hint: `allow it: { "names": ["execve"], "action": "SCMP_ACT_ALLOW" }`}
	}
	return &r.policy, nil
}

func (r *ociReader) profile(top value) error {
	if slices.ContainsFunc(top.keys, func(k jsonKey) bool { return k.name == "ociVersion" }) {
		return r.mistake(top.at, "this is a whole runtime configuration", "its linux.seccomp is the policy: jq .linux.seccomp")
	}
	f, err := r.fields(top, "defaultAction", "defaultErrnoRet", "architectures", "archMap", "flags", "listenerPath", "listenerMetadata", "syscalls")
	if err != nil {
		return err
	}
	r.policy.arch = r.on.Arch
	if f[0].kind == 0 {
		return r.mistake(top.at, "defaultAction is missing", `"defaultAction": "SCMP_ACT_ERRNO" refuses what no entry names`)
	}
	if r.policy.Default, r.whole, err = r.outcome(f[0], f[1]); err != nil {
		return err
	}
	for _, part := range []func() error{
		func() error { return r.architectures(f[2], f[3]) },
		func() error { return r.flags(f[4]) },
		func() error { return r.listener(f[5], f[6]) },
	} {
		if err := part(); err != nil {
			return err
		}
	}
	entries, err := r.list(f[7])
	if err != nil {
		return err
	}
	for i, item := range entries {
		if err := r.entry(item, "entry "+strconv.Itoa(i+1)); err != nil {
			return err
		}
	}
	if err := r.agree(); err != nil {
		return err
	}
	r.policy.Rules = r.plain
	for i := range r.cases {
		r.policy.Rules = append(r.policy.Rules, r.cases[i].rule)
	}
	r.killsMore()
	return nil
}

// outcome reads an action with its errno.
func (r *ociReader) outcome(action, errno value) (o Outcome, whole bool, err error) {
	word, err := r.word(action)
	if err != nil {
		return o, false, err
	}
	var names []string
	for _, a := range ociActions {
		names = append(names, a.name)
	}
	i := slices.Index(names, word)
	if i < 0 {
		return o, false, r.mistake(action.at, fmt.Sprintf("unknown action %q", word), didYouMean(word, names))
	}
	a := &ociActions[i]
	if a.cant != "" {
		return o, false, r.mistake(action.at, word+" can't be done", a.cant)
	}
	o.Do = a.does
	if o.Do != Errno {
		if errno.kind != 0 {
			return o, false, r.mistake(errno.at, word+" gives no errno", "SCMP_ACT_ERRNO does")
		}
		return o, a.whole, nil
	}
	o.Errno = eperm
	if errno.kind != 0 {
		n, err := r.number(errno, 4095)
		switch {
		case err != nil:
			return o, false, err
		case n == 0:
			return o, false, r.mistake(errno.at, "errno 0 would answer with success what was not done", "1 is EPERM, 38 is ENOSYS")
		case errnoName(uint16(n)) == "?":
			return o, false, r.mistake(errno.at, fmt.Sprintf("Linux has no errno %d", n), "1 is EPERM, 38 is ENOSYS")
		}
		o.Errno = uint16(n)
	}
	return o, true, nil
}

// architectures tells which of them stay refused. That of the host is meant whether
// it is named or not, as with libseccomp.
func (r *ociReader) architectures(list, mapped value) error {
	if len(list.items) > 0 && len(mapped.items) > 0 {
		return r.mistake(mapped.at, "architectures and archMap are both there", "leave one of them out")
	}
	named, err := r.words(list)
	if err != nil {
		return err
	}
	all, err := r.list(mapped)
	if err != nil {
		return err
	}
	for _, item := range all {
		f, err := r.fields(item, "architecture", "subArchitectures")
		if err != nil {
			return err
		}
		below, err := r.words(f[1])
		if err != nil {
			return err
		}
		if f[0].kind != '"' {
			return r.mistake(item.at, "architecture is missing", "")
		}
		own, err := r.arch(f[0])
		if err != nil {
			return err
		}
		for _, sub := range below {
			if _, err := r.arch(sub); err != nil {
				return err
			}
		}
		if own == r.on.Arch {
			named = below
		}
	}
	var foreign []string
	at := 0
	for _, v := range named {
		goarch, err := r.arch(v)
		if err != nil {
			return err
		}
		if goarch != r.on.Arch {
			if foreign = append(foreign, v.text); len(foreign) == 1 {
				at = v.at
			}
		}
	}
	if len(foreign) > 0 {
		r.notice(at, "calls of "+strings.Join(foreign, ", ")+" stay refused, as in every policy", "")
	}
	return nil
}

func (r *ociReader) arch(v value) (goarch string, err error) {
	for _, a := range ociArches {
		if a.name == v.text {
			return a.goarch, nil
		}
	}
	var names []string
	for _, a := range ociArches {
		names = append(names, a.name)
	}
	return "", r.mistake(v.at, fmt.Sprintf("unknown architecture %q", v.text), didYouMean(v.text, names))
}

func (r *ociReader) flags(v value) error {
	all, err := r.words(v)
	if err != nil {
		return err
	}
	var names []string
	for _, f := range ociFlags {
		names = append(names, f.name)
	}
	for _, item := range all {
		i := slices.Index(names, item.text)
		switch {
		case i < 0:
			return r.mistake(item.at, fmt.Sprintf("unknown flag %q", item.text), didYouMean(item.text, names))
		case ociFlags[i].cant != "":
			return r.mistake(item.at, item.text+" can't be done", ociFlags[i].cant)
		}
	}
	return nil
}

func (r *ociReader) listener(path, metadata value) error {
	for _, v := range []value{path, metadata} {
		if word, err := r.word(v); err != nil {
			return err
		} else if word != "" {
			return r.mistake(v.at, "a listener can't be given", "confine listens itself, and names refused calls in the report")
		}
	}
	return nil
}

func (r *ociReader) notice(at int, text, hint string) {
	line, column := r.place(at)
	r.policy.Notices = append(r.policy.Notices, Notice{line, column, text, hint})
}

// killsMore says that a thread can't be ended alone.
func (r *ociReader) killsMore() {
	for _, word := range []string{`"SCMP_ACT_KILL"`, `"SCMP_ACT_KILL_THREAD"`} {
		if at := bytes.Index(r.text, []byte(word)); at >= 0 {
			r.notice(at, strings.Trim(word, `"`)+" ends the whole process here, not one thread of it", "")
			return
		}
	}
}
