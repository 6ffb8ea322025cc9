package seccomp

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// policy checks the words of the file and makes a policy of them.
func (f *file) policy() (*Policy, *mistake) {
	p := &Policy{}
	var base *builtin
	if f.Extends != "" {
		if base = builtinOf(f.Extends); base == nil {
			return nil, &mistake{[]any{"extends"}, fmt.Sprintf("there is no policy %q to extend", f.Extends),
				didYouMean(f.Extends, []string{"default", "strict"})}
		}
		p.Default = base.policy.Default
	}
	if f.DefaultAction != "" {
		do, bad := parseDo(f.DefaultAction, "default_action")
		if bad != nil {
			return nil, bad
		}
		p.Default = Outcome{Do: do}
		if do == Errno {
			p.Default.Errno = eperm
		}
	}
	if f.DefaultErrno != "" {
		n, ok := errnoNumber(f.DefaultErrno)
		switch path := []any{"default_errno"}; {
		case f.DefaultAction != Errno.String():
			return nil, &mistake{path, "default_errno says nothing without an errno to give", `default_action = "errno"`}
		case !ok:
			return nil, &mistake{path, fmt.Sprintf("unknown errno %q", f.DefaultErrno), didYouMean(f.DefaultErrno, errnoNames())}
		}
		p.Default.Errno = n
	}
	for i := range f.Rules {
		r, bad := f.Rules[i].rule()
		if bad != nil {
			bad.path = append([]any{"rules", i}, bad.path...)
			return nil, bad
		}
		if r.Name == "" {
			r.Name = "rule " + strconv.Itoa(i+1)
		}
		p.Rules = append(p.Rules, r)
	}
	if base != nil {
		p.Rules = append(p.Rules, base.policy.Rules...)
	}
	return p, nil
}

func parseDo(word string, path ...any) (Do, *mistake) {
	if i := slices.Index(doNames[:], word); i >= 0 {
		return Do(i), nil
	}
	return 0, &mistake{path, fmt.Sprintf("unknown action %q", word), didYouMean(word, doNames[:])}
}

func (f *fileRule) rule() (Rule, *mistake) {
	r := Rule{Name: f.Rule, Reason: f.Reason, Calls: f.Names}
	if f.Action == "" {
		return r, &mistake{nil, "a rule needs an action", "one of " + strings.Join(doNames[:], ", ")}
	}
	do, bad := parseDo(f.Action, "action")
	if bad != nil {
		return r, bad
	}
	r.Outcome.Do = do
	if do == Errno {
		r.Outcome.Errno = eperm
	}
	if f.Errno != "" {
		n, ok := errnoNumber(f.Errno)
		switch {
		case do != Errno:
			return r, &mistake{[]any{"errno"}, fmt.Sprintf("action %q gives no errno", f.Action), `action = "errno" does`}
		case !ok:
			return r, &mistake{[]any{"errno"}, fmt.Sprintf("unknown errno %q", f.Errno), didYouMean(f.Errno, errnoNames())}
		}
		r.Outcome.Errno = n
	}
	if len(f.Names) == 0 {
		return r, &mistake{nil, "a rule needs the names of system calls", `names = ["ptrace"]`}
	}
	for i, name := range f.Names {
		if !known(name) {
			return r, &mistake{[]any{"names", i}, fmt.Sprintf("unknown system call %q", name), didYouMean(name, callNames())}
		}
		if slices.Contains(f.Names[:i], name) {
			return r, &mistake{[]any{"names", i}, fmt.Sprintf("%q stands in this rule twice", name), ""}
		}
	}
	for i := range f.Args {
		c, bad := f.Args[i].cond()
		if bad != nil {
			bad.path = append([]any{"args", i}, bad.path...)
			return r, bad
		}
		r.Args = append(r.Args, c)
	}
	return r, nil
}

func (f *fileArg) cond() (Cond, *mistake) {
	var c Cond
	switch {
	case f.Index == nil:
		return c, &mistake{nil, "a condition needs an index", "index = 0 is the call's first argument"}
	case *f.Index < 0 || *f.Index > 5:
		return c, &mistake{[]any{"index"}, "a system call has the arguments 0 to 5", ""}
	case f.Width == nil:
		return c, &mistake{nil, "a condition needs a width",
			"width = 32 where the kernel takes an int, 64 where it takes a long or a pointer: upper bits that it ignores must not decide"}
	case *f.Width != 32 && *f.Width != 64:
		return c, &mistake{[]any{"width"}, "width is 32 or 64", ""}
	}
	c.Index, c.Width = uint8(*f.Index), uint8(*f.Width)
	i := slices.Index(opNames[:], f.Op)
	if i < 0 {
		return c, &mistake{[]any{"op"}, fmt.Sprintf("unknown op %q", f.Op), didYouMean(f.Op, opNames[:])}
	}
	c.Op = Op(i)
	if f.Mask != nil {
		mask, bad := number(f.Mask, c.bits(), "mask")
		if bad == nil && mask == 0 {
			bad = &mistake{[]any{"mask"}, "a mask of 0 compares nothing", ""}
		}
		if bad != nil {
			return c, bad
		}
		if mask != c.bits() { // so that a mask of everything is the same policy as none
			c.Mask = mask
		}
	}
	return c, f.values(&c)
}

func (f *fileArg) values(c *Cond) *mistake {
	several := c.Op == In || c.Op == NotIn
	switch {
	case several && (f.Value != nil || len(f.Values) == 0):
		return &mistake{nil, fmt.Sprintf("op %q takes values", c.Op), "values = [1, 2]"}
	case !several && (f.Values != nil || f.Value == nil):
		return &mistake{nil, fmt.Sprintf("op %q takes one value", c.Op), "value = 1"}
	case !several:
		v, bad := number(f.Value, c.bits(), "value")
		c.Values = []uint64{v}
		return bad
	}
	for i := range f.Values {
		v, bad := number(f.Values[i], c.bits(), "values", i)
		if bad != nil {
			return bad
		}
		c.Values = append(c.Values, v)
	}
	return nil
}

// number reads a value, which must lie within bits: otherwise nothing would
// ever be equal to it, and the rule be another one than it looks.
func number(v any, bits uint64, path ...any) (uint64, *mistake) {
	var n uint64
	switch v := v.(type) {
	case int64:
		if v < 0 {
			return 0, &mistake{path, fmt.Sprintf("%d is negative, and arguments are compared without sign", v),
				fmt.Sprintf("%#x in 32 bits, \"%#x\" in 64", uint32(v), uint64(v))}
		}
		n = uint64(v)
	case string:
		for word := range strings.SplitSeq(v, "|") {
			w, known := constant(word)
			if !known {
				var err error
				if w, err = strconv.ParseUint(word, 0, 64); err != nil {
					return 0, &mistake{path, fmt.Sprintf("unknown value %q", word), didYouMean(word, constantNames())}
				}
			}
			n |= w
		}
	default:
		return 0, &mistake{path, "a value is a whole number or a string", ""}
	}
	if n&^bits != 0 {
		if bits == math.MaxUint32 {
			return 0, &mistake{path, fmt.Sprintf("%#x has more than 32 bits", n), "width = 64 compares all of the argument"}
		}
		return 0, &mistake{path, fmt.Sprintf("%#x has bits outside of the mask %#x", n, bits), ""}
	}
	return n, nil
}
