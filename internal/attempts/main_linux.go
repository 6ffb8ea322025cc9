package attempts

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Exit codes of an attempt.
const (
	Done    = 0
	Broken  = 2
	Refused = 3
)

// ErrBroken is an attempt that was not even made.
var ErrBroken = errors.New("broken attempt")

// Try is one thing to try.
type Try struct {
	Name string
	Args int // at least
	Do   func(args []string) error
}

// tries are plain functions, so that the linker lays them out.
var tries = [...]*[]Try{
	&fileTries, &processTries, &loadTries, &networkTries, &callTries, &leakTries,
}

// Main makes one attempt and ends the process. more are the caller's own words.
func Main(words []string, more ...[]Try) {
	err := run(words, more)
	if err == nil {
		os.Exit(Done)
	}
	// The errno by its name is what scripts look for.
	code := Refused
	if errors.Is(err, ErrBroken) {
		code = Broken
	}
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		err = fmt.Errorf("%w (%s)", err, unix.ErrnoName(errno))
	}
	fmt.Fprintln(os.Stderr, "attempt", err)
	os.Exit(code)
}

// run takes the words that stand for more than one attempt, with a "," between each two:
//
//	each A… , B…            all of them have to work
//	any A… , B…             one is enough; all are made
//	given A… ; WORDS        A has to work, or nothing was tried
func run(words []string, more [][]Try) error {
	if len(words) == 0 {
		return fmt.Errorf("%w: no word", ErrBroken)
	}
	switch words[0] {
	case "each":
		for _, one := range split(words[1:], ",") {
			if err := run(one, more); err != nil {
				return err
			}
		}
		return nil
	case "any":
		var errs []error
		worked := false
		for _, one := range split(words[1:], ",") {
			err := run(one, more)
			worked = worked || err == nil
			errs = append(errs, err)
		}
		if worked {
			return nil
		}
		return errors.Join(errs...)
	case "given":
		first, rest, ok := upTo(words[1:], ";")
		if !ok {
			return fmt.Errorf("%w: given what?", ErrBroken)
		}
		if err := run(first, more); err != nil {
			return fmt.Errorf("%w: what is allowed doesn't work either: %w", ErrBroken, err)
		}
		return run(rest, more)
	}
	return one(words[0], words[1:], more)
}

func one(name string, args []string, more [][]Try) error {
	t, ok := find(name, more)
	switch {
	case !ok:
		return fmt.Errorf("%w: unknown word %q", ErrBroken, name)
	case len(args) < t.Args:
		return fmt.Errorf("%w: %s needs %d words", ErrBroken, name, t.Args)
	}
	if err := t.Do(args); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func find(name string, more [][]Try) (Try, bool) {
	for _, some := range tries {
		more = append(more[:len(more):len(more)], *some)
	}
	for _, some := range more {
		for _, t := range some {
			if t.Name == name {
				return t, true
			}
		}
	}
	return Try{}, false
}

func upTo(words []string, at string) (before, after []string, ok bool) {
	i := slices.Index(words, at)
	if i < 0 {
		return words, nil, false
	}
	return words[:i], words[i+1:], true
}

func split(words []string, at string) (all [][]string) {
	for more := true; more; {
		var first []string
		first, words, more = upTo(words, at)
		all = append(all, first)
	}
	return all
}

// Number reads an argument; nothing is tried where it is none.
func Number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		fmt.Fprintf(os.Stderr, "attempt %v: %q is no number\n", ErrBroken, s)
		os.Exit(Broken)
	}
	return n
}

// Numbers reads arguments.
func Numbers(args []string) []int64 {
	list := make([]int64, len(args))
	for i, s := range args {
		list[i] = Number(s)
	}
	return list
}
