package wasm

import (
	"errors"
	"strconv"
	"strings"

	"github.com/confine-run/confine/status"
)

// Program is the engine's name. It lies in the directory of the program that starts runs, or in that of confine.
const Program = "confine-wasm"

// Install is what to do where it isn't there.
const Install = "install confine-wasm beside confine: make install does"

// Engine is in ledgers.
const Engine = "wazero"

// PageSize is that of a module's memory.
const PageSize = 64 << 10

// Options are what the engine is started with.
type Options struct {
	// Dirs are directories and files that the module gets, under the same names. The first is its current directory.
	Dirs []string
	// Pages is how much memory it may have; 0: as much as there can be.
	Pages uint32
	// Deterministic: clocks and random numbers are the same in each run.
	Deterministic bool
	// Cache is a directory with what the module was compiled to, or "".
	Cache string
}

// Args are the words of the engine's command line for a module with its arguments.
func (o *Options) Args(program string, argv []string) []string {
	words := []string{program, "run"}
	for _, dir := range o.Dirs {
		words = append(words, "--dir="+dir)
	}
	if o.Pages > 0 {
		words = append(words, "--pages="+strconv.FormatUint(uint64(o.Pages), 10))
	}
	if o.Deterministic {
		words = append(words, "--deterministic")
	}
	if o.Cache != "" {
		words = append(words, "--cache="+o.Cache)
	}
	return append(append(words, "--"), argv...)
}

// Parse reads those words, from "run" on.
func Parse(words []string) (o Options, argv []string, err error) {
	for i, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "--dir":
			o.Dirs = append(o.Dirs, value)
		case "--pages":
			n, err := strconv.ParseUint(value, 10, 32)
			if err != nil {
				return o, nil, err
			}
			o.Pages = uint32(n)
		case "--deterministic":
			o.Deterministic = true
		case "--cache":
			o.Cache = value
		case "--":
			if argv = words[i+2:]; len(argv) == 0 {
				return o, nil, errors.New("no module")
			}
			return o, argv, nil
		default:
			return o, nil, errors.New("unknown word " + strconv.Quote(word))
		}
	}
	return o, nil, errors.New("no module")
}

// Told is what the engine tells at the end, of what its exit code doesn't say.
type Told struct {
	// Status is how the module ended, if not by its exit code, or why it failed.
	Status status.Status
	// Signal is what a program would have died of that did the same.
	Signal string
	Reason string
	Hint   string
	// Code is the exit code of a command that could not be started.
	Code int
	// Memory is the most that the module had.
	Memory int64
	// Denied are accesses that were refused, the first of them.
	Denied []string
}

// Bounds of what is told: one write(2) of it is whole, or not there.
const (
	MaxTold   = 4096
	MaxDenied = 8
	maxWord   = 200
)

// Encode gives at most MaxTold bytes: words that end with a zero byte, what was denied being the last of them. It is no JSON, since
// encoding/json takes 0.1 ms to learn a type, here and where it is read.
func (t *Told) Encode() (text []byte) {
	words := []string{string(t.Status), t.Signal, t.Reason, t.Hint, strconv.Itoa(t.Code), strconv.FormatInt(t.Memory, 10)}
	for _, word := range append(words, t.Denied[:min(len(t.Denied), MaxDenied)]...) {
		text = append(append(text, strings.ReplaceAll(cut(word), "\x00", "?")...), 0)
	}
	return text
}

func cut(text string) string {
	if len(text) > maxWord {
		return strings.ToValidUTF8(text[:maxWord], "") + "…"
	}
	return text
}

// Decode reads it. What isn't there is nothing.
func Decode(text []byte) (t Told, err error) {
	if len(text) == 0 {
		return t, nil
	}
	words := strings.Split(strings.ToValidUTF8(string(text), "?"), "\x00")
	if len(words) < 7 || words[len(words)-1] != "" {
		return t, errors.New("what the engine told isn't whole")
	}
	t = Told{Status: status.Status(words[0]), Signal: words[1], Reason: words[2], Hint: words[3], Denied: words[6:min(len(words)-1, 6+MaxDenied)]}
	t.Code, err = strconv.Atoi(words[4])
	if err == nil {
		t.Memory, err = strconv.ParseInt(words[5], 10, 64)
	}
	return t, err
}

// Pages is how much memory a module gets of a limit that the engine takes its part of: all but 48 MiB, or half.
func Pages(limit int64) uint32 {
	const own, all = 48 << 20, 4 << 30
	if limit <= 0 {
		return 0
	}
	return uint32(min(max(limit-own, limit/2), all) / PageSize)
}
