package policyfile

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/seccomp"
)

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

// ruleName is that of a rule, or its number where it has none.
func (f *file) ruleName(i int) string {
	if name := f.Rules[i].Rule; name != "" {
		return name
	}
	return "rule " + strconv.Itoa(i+1)
}

// Line is where a rule stands in a policy file, 0 if it doesn't.
func Line(path, rule string) int {
	text, err := read(path)
	if err != nil {
		return 0
	}
	var f file
	if toml.Unmarshal(text, &f) != nil {
		return 0
	}
	for i := range f.Rules {
		if f.ruleName(i) == rule {
			line, _ := locate(text, []any{"rules", i})
			return line
		}
	}
	return 0
}

// place is a value of a document: keys and indices lead to it.
type place struct {
	*reader
	path []any
}

func (at place) in(further ...any) place { return place{at.reader, slices.Concat(at.path, further)} }

func (at place) fail(msg, hint string) {
	line, column := locate(at.text, at.path)
	at.reader.fail(line, column, msg, hint)
}

// failWith is fail with an error's words.
func (at place) failWith(err error) {
	msg, remedy := hint.Split(err)
	at.fail(msg, remedy)
}

func parseTOML(r reader) *seccomp.Policy {
	var f file
	if err := toml.NewDecoder(bytes.NewReader(r.text)).DisallowUnknownFields().Decode(&f); err != nil {
		r.failDecode(err)
	}
	at := place{reader: &r}
	p := &seccomp.Policy{}
	var base []seccomp.Rule
	if f.Extends != "" {
		extended := seccomp.Builtin(f.Extends)
		if extended == nil {
			at.in("extends").fail(fmt.Sprintf("there is no policy %q to extend", f.Extends), hint.DidYouMean(f.Extends, []string{"default", "strict"}))
		}
		p.Default, base = extended.Default, extended.Rules
	}
	if f.DefaultAction != "" {
		p.Default = at.outcome(f.DefaultAction, "default_action", "", "")
	}
	if f.DefaultErrno != "" {
		if f.DefaultAction != seccomp.Errno.String() {
			at.in("default_errno").fail("default_errno says nothing without an errno to give", `default_action = "errno"`)
		}
		p.Default = at.outcome(f.DefaultAction, "default_action", f.DefaultErrno, "default_errno")
	}
	for i := range f.Rules {
		rule := f.Rules[i].rule(at.in("rules", i))
		rule.Name = f.ruleName(i)
		p.Rules = append(p.Rules, rule)
	}
	p.Rules = append(p.Rules, base...)
	return p
}

// failDecode is for what is no TOML, or not of the form of a policy.
func (r *reader) failDecode(err error) {
	var missing *toml.StrictMissingError
	var decode *toml.DecodeError
	switch {
	case errors.As(err, &missing) && len(missing.Errors) > 0:
		first := &missing.Errors[0]
		line, column := first.Position()
		key := first.Key()
		word := key[len(key)-1]
		words := []string{"extends", "default_action", "default_errno", "rules"}
		if len(key) > 1 {
			words = []string{"rule", "names", "action", "errno", "reason", "args", "index", "op", "value", "values", "mask", "width"}
		}
		r.fail(line, column, fmt.Sprintf("unknown key %q", word), hint.DidYouMean(word, words))
	case errors.As(err, &decode):
		line, column := decode.Position()
		r.fail(line, column, decode.Error(), "")
	}
	r.fail(0, 0, err.Error(), "")
}

// outcome reads an action, and the errno that it gives if another one than EPERM is said.
func (at place) outcome(action, actionKey, errno, errnoKey string) (o seccomp.Outcome) {
	i := slices.Index(seccomp.Dos[:], action)
	if i < 0 {
		at.in(actionKey).fail(fmt.Sprintf("unknown action %q", action), hint.DidYouMean(action, seccomp.Dos[:]))
	}
	if o.Do = seccomp.Do(i); o.Do == seccomp.Errno {
		o.Errno = eperm
	}
	if errno != "" {
		if o.Do != seccomp.Errno {
			at.in(errnoKey).fail(fmt.Sprintf("action %q gives no errno", action), `action = "errno" does`)
		}
		n, err := seccomp.ErrnoNumber(errno)
		if err != nil {
			at.in(errnoKey).failWith(err)
		}
		o.Errno = n
	}
	return o
}

const eperm = 1

func (f *fileRule) rule(at place) seccomp.Rule {
	if f.Action == "" {
		at.fail("a rule needs an action", "one of "+strings.Join(seccomp.Dos[:], ", "))
	}
	r := seccomp.Rule{Reason: f.Reason, Calls: f.Names, Outcome: at.outcome(f.Action, "action", f.Errno, "errno")}
	if len(f.Names) == 0 {
		at.fail("a rule needs the names of system calls", `names = ["ptrace"]`)
	}
	for i, name := range f.Names {
		switch at := at.in("names", i); {
		case !seccomp.Known(name):
			at.fail(fmt.Sprintf("unknown system call %q", name), hint.DidYouMean(name, seccomp.AllCalls()))
		case slices.Contains(f.Names[:i], name):
			at.fail(fmt.Sprintf("%q stands in this rule twice", name), "")
		}
	}
	for i := range f.Args {
		r.Args = append(r.Args, f.Args[i].cond(at.in("args", i)))
	}
	return r
}

func (f *fileArg) cond(at place) (c seccomp.Cond) {
	switch {
	case f.Index == nil:
		at.fail("a condition needs an index", "index = 0 is the call's first argument")
	case *f.Index < 0 || *f.Index > 5:
		at.in("index").fail("a system call has the arguments 0 to 5", "")
	case f.Width == nil:
		at.fail("a condition needs a width",
			"width = 32 where the kernel takes an int, 64 where it takes a long or a pointer: upper bits that it ignores must not decide")
	case *f.Width != 32 && *f.Width != 64:
		at.in("width").fail("width is 32 or 64", "")
	}
	c.Index, c.Width = uint8(*f.Index), uint8(*f.Width)
	i := slices.Index(seccomp.Ops[:], f.Op)
	if i < 0 {
		at.in("op").fail(fmt.Sprintf("unknown op %q", f.Op), hint.DidYouMean(f.Op, seccomp.Ops[:]))
	}
	c.Op = seccomp.Op(i)
	if f.Mask != nil {
		mask := at.in("mask").number(f.Mask, c.Bits())
		if mask == 0 {
			at.in("mask").fail("a mask of 0 compares nothing", "")
		}
		if mask != c.Bits() { // so that a mask of everything is the same policy as none
			c.Mask = mask
		}
	}
	switch several := c.Op == seccomp.In || c.Op == seccomp.NotIn; {
	case several && (f.Value != nil || len(f.Values) == 0):
		at.fail(fmt.Sprintf("op %q takes values", c.Op), "values = [1, 2]")
	case !several && (f.Values != nil || f.Value == nil):
		at.fail(fmt.Sprintf("op %q takes one value", c.Op), "value = 1")
	case !several:
		c.Values = []uint64{at.in("value").number(f.Value, c.Bits())}
	}
	for i := range f.Values {
		c.Values = append(c.Values, at.in("values", i).number(f.Values[i], c.Bits()))
	}
	return c
}

// number reads a value, which must lie within bits: otherwise nothing would
// ever be equal to it, and the rule be another one than it looks.
func (at place) number(v any, bits uint64) (n uint64) {
	switch v := v.(type) {
	case int64:
		if n = uint64(v); v < 0 {
			at.fail(fmt.Sprintf("%d is negative, and arguments are compared without sign", v), fmt.Sprintf("%#x in 32 bits, \"%#x\" in 64", uint32(v), n))
		}
	case string:
		var err error
		if n, err = seccomp.Value(v); err != nil {
			at.failWith(err)
		}
	default:
		at.fail("a value is a whole number or a string", "")
	}
	switch {
	case n&^bits == 0:
	case bits == math.MaxUint32:
		at.fail(fmt.Sprintf("%#x has more than 32 bits", n), "width = 64 compares all of the argument")
	default:
		at.fail(fmt.Sprintf("%#x has bits outside of the mask %#x", n, bits), "")
	}
	return n
}
