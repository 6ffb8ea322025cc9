// Command attempt tries what a sandbox has to hold: one thing for each word, the
// same inside and outside. It exits with 0 when that worked, with 3 when the
// kernel refused it, and with 2 when it could not be tried. Whatever takes
// processes, memory or time is bounded by its own arguments.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	exitDone    = 0
	exitBroken  = 2
	exitRefused = 3
)

// errBroken is an attempt that was not even made.
var errBroken = errors.New("broken attempt")

type try struct {
	args int // at least
	do   func(args []string) error
}

var tries = []map[string]try{fileTries, pathTries, processTries, loadTries, networkTries, packetTries, callTries, olderTries, faultTries, cgroupTries, denialTries, supervisedTries}

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("%w: no word", errBroken))
	}
	name, args := os.Args[1], os.Args[2:]
	for _, some := range tries {
		t, ok := some[name]
		if !ok {
			continue
		}
		if len(args) < t.args {
			fail(fmt.Errorf("%w: %s needs %d words", errBroken, name, t.args))
		}
		if err := t.do(args); err != nil {
			fail(fmt.Errorf("%s: %w", name, err))
		}
		os.Exit(exitDone)
	}
	fail(fmt.Errorf("%w: unknown word %q", errBroken, name))
}

// fail says the errno by its name, which scripts look for.
func fail(err error) {
	code := exitRefused
	if errors.Is(err, errBroken) {
		code = exitBroken
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		err = fmt.Errorf("%w (%s)", err, unix.ErrnoName(errno))
	}
	fmt.Fprintln(os.Stderr, "attempt", err)
	os.Exit(code)
}

func number(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is no number", errBroken, s)
	}
	return n, nil
}

func numbers(args []string) ([]int64, error) {
	list := make([]int64, len(args))
	for i, s := range args {
		n, err := number(s)
		if err != nil {
			return nil, err
		}
		list[i] = n
	}
	return list, nil
}
