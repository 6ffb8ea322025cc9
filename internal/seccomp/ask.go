package seccomp

import (
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/hint"
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
func (w Arguments) read() (args [6]uint64, given uint8, err error) {
	if len(w) > len(args) {
		return args, 0, hint.New("a system call has no more than six arguments", "")
	}
	for i, word := range w {
		if word = strings.TrimSpace(word); word == "" || word == "_" {
			continue
		}
		n, err := strconv.ParseInt(word, 0, 64) // also one below zero
		args[i], given = uint64(n), given|1<<i
		if err != nil {
			if args[i], err = Value(word); err != nil {
				return args, 0, err
			}
		}
	}
	return args, given, nil
}

// Ask says what the filter does with a native call: one ruling where the arguments
// that were given decide, and otherwise one for each rule that could. listening is
// whether denials are handed to a listener (see Notifying). The error is a *PolicyError
// about the words.
func (f *Filter) Ask(name string, words Arguments, listening bool) ([]Ruling, error) {
	nr, ok := f.table.Number(name)
	if !ok {
		return nil, &PolicyError{File: "--syscall", Msg: "there is no system call " + strconv.Quote(name) + " on " + f.table.arch, Hint: hint.DidYouMean(name, f.table.Calls())}
	}
	args, given, err := words.read()
	if err != nil {
		msg, remedy := hint.Split(err)
		return nil, &PolicyError{File: "--syscall " + name, Msg: msg, Hint: remedy}
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
	for v, sure := range f.policy.candidates(name, &args, given) {
		all = append(all, f.ruling(v, nr, args, sure))
	}
	if len(all) > 1 && !slices.ContainsFunc(all, func(r Ruling) bool { return r.Effect != all[0].Effect }) {
		last := all[len(all)-1] // by whichever rule
		last.Sure = true
		return []Ruling{last}, nil
	}
	return all, nil
}

func (f *Filter) ruling(v Verdict, nr int, args [6]uint64, sure bool) Ruling {
	r := Ruling{Verdict: v, Effect: v.Under(f.action), Sure: sure, Passes: passes(v.ret(f.action))}
	// A hint is about a whole call, and so about the rule that it meets.
	if !r.Passes && f.policy.number(f.table, f.table.audit, uint32(nr), args).Rule == v.Rule {
		r.Hint = f.Hint(f.table.audit, uint32(nr), args)
	}
	return r
}
