package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	exitBroken  = 2
	exitRefused = 3
)

// errBroken is what was not even tried.
var errBroken = errors.New("broken")

type word struct {
	args int // at least
	do   func(args []string) error
}

var words = []map[string]word{worldWords, clientWords, streamWords, webWords, retryWords, leaveWords}

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("%w: no word", errBroken))
	}
	name, args := os.Args[1], os.Args[2:]
	for _, some := range words {
		w, ok := some[name]
		if !ok {
			continue
		}
		if len(args) < w.args {
			fail(fmt.Errorf("%w: %s needs %d words", errBroken, name, w.args))
		}
		if err := w.do(args); err != nil {
			fail(fmt.Errorf("%s: %w", name, err))
		}
		return
	}
	fail(fmt.Errorf("%w: unknown word %q", errBroken, name))
}

// fail says the errno by its name, which scripts look for.
func fail(err error) {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		os.Exit(exit.ExitCode()) // the command's own
	}
	code := exitRefused
	if errors.Is(err, errBroken) {
		code = exitBroken
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		err = fmt.Errorf("%w (%s)", err, unix.ErrnoName(errno))
	}
	fmt.Fprintln(os.Stderr, "netpeer", err)
	os.Exit(code)
}

func number(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is no number", errBroken, s)
	}
	return n, nil
}
