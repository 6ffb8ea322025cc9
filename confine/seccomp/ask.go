package seccomp

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Ruling is what a filter does with a call, and by which rule.
type Ruling struct {
	Verdict
	Passes bool
	Effect string // "allow", "log", "kill" or "errno NAME"
	Hint   string // what would let it through, if it doesn't pass
	// Sure: it is so whatever arguments were left open.
	Sure bool
}

// Arguments are a call's as a person gives them: numbers, or the constants of
// policy files, with "|" between flags. "" and "_" leave one open, and so does
// leaving it out.
type Arguments []string

// read gives the numbers, and a bit for each that is known.
func (w Arguments) read() (args [6]uint64, given uint8, bad *mistake) {
	if len(w) > len(args) {
		return args, 0, &mistake{nil, "a system call has no more than six arguments", ""}
	}
	for i, word := range w {
		if word = strings.TrimSpace(word); word == "" || word == "_" {
			continue
		}
		if n, err := strconv.ParseInt(word, 0, 64); err == nil {
			args[i], given = uint64(n), given|1<<i // also one below zero
			continue
		}
		n, bad := number(word, ^uint64(0), "args", i)
		if bad != nil {
			return args, 0, bad
		}
		args[i], given = n, given|1<<i
	}
	return args, given, nil
}

// Ask says what the filter does with a native call: one ruling where the arguments
// that were given decide, and otherwise one for each rule that could. listening is
// whether denials are handed to a listener (see Notifying). The error is a *PolicyError
// about the words.
func (f *Filter) Ask(name string, words Arguments, listening bool) ([]Ruling, error) {
	nr, ok := f.table.lookup(name)
	if !ok {
		names, _ := Calls(f.table.arch)
		return nil, &PolicyError{File: "--syscall", Msg: "there is no system call " + strconv.Quote(name) + " on " + f.table.arch, Hint: didYouMean(name, names)}
	}
	args, given, bad := words.read()
	if bad != nil {
		return nil, &PolicyError{File: "--syscall " + name, Msg: bad.msg, Hint: bad.hint}
	}
	var all []Ruling
	if listening && name == "seccomp" {
		own := Verdict{Outcome{Errno, ebusy}, "listener", "of two listeners the newer would be asked"}
		switch sure := given&2 != 0; {
		case sure && args[1]&flagNewListener != 0:
			return []Ruling{f.ruling(own, nr, args, true)}, nil
		case !sure:
			all = append(all, f.ruling(own, nr, args, false))
		}
	}
	for v, sure := range f.policy.could(name, &args, given) {
		all = append(all, f.ruling(v, nr, args, sure))
	}
	same := func(r Ruling) bool { return r.Effect == all[0].Effect }
	if len(all) > 1 && !slices.ContainsFunc(all, func(r Ruling) bool { return !same(r) }) {
		last := all[len(all)-1] // by whichever rule
		last.Sure = true
		return []Ruling{last}, nil
	}
	return all, nil
}

func (f *Filter) ruling(v Verdict, nr int, args [6]uint64, sure bool) Ruling {
	r := Ruling{Verdict: v, Effect: v.Under(f.action), Sure: sure}
	ret := v.ret(f.action)
	r.Passes = ret == retAllow || ret == retLog
	// A hint is about a whole call, and so about the rule that it meets.
	if !r.Passes && f.policy.number(f.table, f.table.audit, uint32(nr), args).Rule == v.Rule {
		r.Hint = f.Hint(f.table.audit, uint32(nr), args)
	}
	return r
}

// Line is where a rule stands in a policy file, 0 if it doesn't.
func Line(path, rule string) int {
	text, err := os.ReadFile(path)
	if err != nil || len(text) > fileLimit {
		return 0
	}
	var f file
	if toml.Unmarshal(text, &f) != nil {
		return 0
	}
	for i := range f.Rules {
		if name := f.Rules[i].Rule; name == rule || name == "" && rule == "rule "+strconv.Itoa(i+1) {
			line, _ := locate(text, []any{"rules", i})
			return line
		}
	}
	return 0
}
