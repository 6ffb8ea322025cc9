package engine

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/tetratelabs/wazero/sys"

	"github.com/confine-run/confine/internal/wasm"
	"github.com/confine-run/confine/status"
)

// What keeps a module from being started.
var errNoCommand = errors.New("it has no _start: it is a library, and no command")

type notImported struct{ from, name string }

func (e *notImported) Error() string {
	return "it wants " + strconv.Quote(e.from) + "." + strconv.Quote(e.name) + ", and gets the functions of WASI preview 1 alone"
}

type tooLarge struct{ text string }

func (e *tooLarge) Error() string { return e.text }

// notStarted tells why there was nothing to run.
func notStarted(name string, err error) (*wasm.Told, int) {
	t := &wasm.Told{Status: status.ExecFailed, Code: 126, Reason: strconv.Quote(name) + ": " + err.Error()}
	var missing *notImported
	var large *tooLarge
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Code = 127
		t.Reason = strconv.Quote(name) + ": no such file inside"
		if !strings.Contains(name, "/") {
			t.Hint = "it takes the file of a module, by its path; PATH is not looked at"
		}
	case errors.Is(err, errNoModule):
		t.Hint = "--isolation process runs a program of the system's"
	case errors.As(err, &missing):
		t.Denied = []string{missing.from + "." + missing.name}
	case errors.As(err, &large):
		t.Status, t.Code, t.Hint = status.MemLimit, 0, "--memory-limit sets another"
	}
	return t, t.Status.RC(status.Normalized, t.Code, 0)
}

// trap is what a program would have died of that did the same.
type trap struct {
	signal string
	number int
}

// traps are the engine's, by the texts that they are made with. Its types have no names outside of it.
var traps = map[string]trap{
	"unreachable":                   {"SIGILL", 4},
	"out of bounds memory access":   {"SIGSEGV", 11},
	"stack overflow":                {"SIGSEGV", 11},
	"invalid table access":          {"SIGSEGV", 11},
	"indirect call type mismatch":   {"SIGILL", 4},
	"integer overflow":              {"SIGFPE", 8},
	"integer divide by zero":        {"SIGFPE", 8},
	"invalid conversion to integer": {"SIGFPE", 8},
	"unaligned atomic":              {"SIGBUS", 7},
	"expected shared memory":        {"SIGBUS", 7},
	"too many waiters":              {"SIGABRT", 6},
	"uncaught exception":            {"SIGABRT", 6},
	"null reference":                {"SIGSEGV", 11},
}

// ending is what came of a module, and the engine's exit code.
func ending(err error, mem *memory, seen *seen) (t *wasm.Told, code int) {
	t = &wasm.Told{Memory: int64(mem.peak), Denied: seen.denied}
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		code = int(exit.ExitCode() & 0xff) // as of every program
	} else if err != nil {
		t.Status, t.Signal, t.Reason, code = status.KilledSignal, "SIGABRT", "the module was stopped: "+err.Error(), 134
		cause := err
		for next := errors.Unwrap(cause); next != nil; next = errors.Unwrap(cause) {
			cause = next
		}
		if of, ok := traps[cause.Error()]; ok {
			t.Signal, t.Reason, code = of.signal, "trap: "+cause.Error(), 128+of.number
		}
	}
	switch {
	case code == 0:
	case mem.refused:
		t.Status, t.Signal = status.MemLimit, ""
		t.Reason, t.Hint = "the module asked for more memory than it may have, and failed", "--memory-limit sets another"
	case t.Status == "" && len(seen.denied) > 0:
		t.Status = status.SandboxDenied
	}
	return t, code
}
