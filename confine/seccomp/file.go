package seccomp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"github.com/confine-run/confine/internal/hint"
)

// fileLimit is more than any policy needs, and less than /dev/zero has.
const fileLimit = 1 << 20

// file is the form of a policy file.
type file struct {
	Extends       string     `toml:"extends"`        // "default" or "strict": its rules come after these
	DefaultAction string     `toml:"default_action"` // without: that of Extends, or "deny"
	DefaultErrno  string     `toml:"default_errno"`
	Rules         []fileRule `toml:"rules"`
}

type fileRule struct {
	Rule   string    `toml:"rule"`
	Names  []string  `toml:"names"`
	Action string    `toml:"action"`
	Errno  string    `toml:"errno"`
	Reason string    `toml:"reason"`
	Args   []fileArg `toml:"args"`
}

type fileArg struct {
	Index  *int64 `toml:"index"`
	Op     string `toml:"op"`
	Value  any    `toml:"value"`  // a number, or a string: "0xffffffffffffffff", "AF_UNIX", "A|B"
	Values []any  `toml:"values"` // for in and not_in
	Mask   any    `toml:"mask"`
	Width  *int64 `toml:"width"`
}

func readFile(path string, on Target) (*Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, hint.With(fmt.Errorf("seccomp policy: %w", err), "--seccomp takes off, default, strict or the path of a policy file")
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, fileLimit+1))
	if err != nil {
		return nil, fmt.Errorf("seccomp policy: %w", err)
	}
	if len(text) > fileLimit {
		return nil, &PolicyError{File: path, Msg: "a policy file has at most 1 MiB"}
	}
	return ParseFor(text, path, on)
}

func parse(text []byte, name string) (*Policy, error) {
	var f file
	err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&f)
	if err != nil {
		return nil, decodeError(err, name)
	}
	p, bad := f.policy()
	if bad == nil {
		bad = p.startable()
	}
	if bad != nil {
		line, column := locate(text, bad.path)
		return nil, &PolicyError{name, line, column, bad.msg, bad.hint}
	}
	return p, nil
}

// mistake is an error in a document that was read, and the path to it: keys and
// indices.
type mistake struct {
	path []any
	msg  string
	hint string
}

func decodeError(err error, name string) error {
	var missing *toml.StrictMissingError
	var decode *toml.DecodeError
	if errors.As(err, &missing) && len(missing.Errors) > 0 {
		first := &missing.Errors[0]
		line, column := first.Position()
		key := first.Key()
		word := key[len(key)-1]
		words := []string{"extends", "default_action", "default_errno", "rules"}
		if len(key) > 1 {
			words = []string{"rule", "names", "action", "errno", "reason", "args", "index", "op", "value", "values", "mask", "width"}
		}
		return &PolicyError{name, line, column, fmt.Sprintf("unknown key %q", word), didYouMean(word, words)}
	}
	if errors.As(err, &decode) {
		line, column := decode.Position()
		return &PolicyError{File: name, Line: line, Column: column, Msg: decode.Error()}
	}
	return &PolicyError{File: name, Msg: err.Error()}
}

// startable refuses a policy under which nothing can run: the filter is loaded
// before execve. A condition doesn't count: the arguments are pointers.
func (p *Policy) startable() *mistake {
	do := p.Default.Do
	for i := range p.Rules {
		r := &p.Rules[i]
		if slices.Contains(r.Calls, "execve") && len(r.Args) == 0 {
			do = r.Outcome.Do
			break
		}
	}
	if do == Allow || do == Log {
		return nil
	}
	return &mistake{msg: "execve is not allowed, so that no program can start", hint: `allow it: names = ["execve"], action = "allow"`}
}
