package policyfile

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/located"
	"github.com/confine-run/confine/internal/seccomp"
)

func parseTOML(d *document) *seccomp.Policy {
	f := d.fields(d.readTOML(), "extends", "default_action", "default_errno", "rules")
	p := &seccomp.Policy{}
	var base []seccomp.Rule
	if name := d.word(f[0]); name != "" {
		extended := seccomp.Builtin(name)
		if extended == nil {
			d.fail(f[0].At, fmt.Sprintf("there is no policy %q to extend", name), hint.DidYouMean(name, []string{"default", "strict"}))
		}
		p.Default, base = extended.Default, extended.Rules
	}
	if f[2].Kind != 0 && f[1].Text != seccomp.Errno.String() {
		d.fail(f[2].At, "default_errno says nothing without an errno to give", `default_action = "errno"`)
	}
	if f[1].Kind != 0 {
		p.Default = d.outcome(f[1], f[2])
	}
	for i, item := range d.list(f[3]) {
		p.Rules = append(p.Rules, d.rule(item, i))
	}
	p.Rules = append(p.Rules, base...)
	return p
}

// Line is where a rule stands in a policy file, 0 if it doesn't.
func Line(path, rule string) int {
	text, err := read(path)
	if err != nil {
		return 0
	}
	top, _ := located.TOML(text)
	for i, k := range top.Keys {
		if k.Name != "rules" {
			continue
		}
		for n, item := range top.Items[i].Items {
			name := ""
			for j, k := range item.Keys {
				if k.Name == "rule" {
					name = item.Items[j].Text
				}
			}
			if ruleName(name, n) == rule {
				line, _ := located.NewLines(text).Place(item.At)
				return line
			}
		}
	}
	return 0
}

// ruleName is that of a rule, or its number where it has none.
func ruleName(name string, i int) string {
	if name != "" {
		return name
	}
	return "rule " + strconv.Itoa(i+1)
}

// outcome reads an action, and the errno that it gives if another one than EPERM is said.
func (d *document) outcome(action, errno value) (o seccomp.Outcome) {
	if o.Do = seccomp.Do(d.oneOf(action, "action", seccomp.Dos[:])); o.Do == seccomp.Errno {
		o.Errno = eperm
	}
	if errno.Kind != 0 {
		if o.Do != seccomp.Errno {
			d.fail(errno.At, fmt.Sprintf("action %q gives no errno", o.Do), `action = "errno" does`)
		}
		n, err := seccomp.ErrnoNumber(d.word(errno))
		if err != nil {
			d.failWith(errno.At, err)
		}
		o.Errno = n
	}
	return o
}

const eperm = 1

func (d *document) rule(v value, i int) (r seccomp.Rule) {
	f := d.fields(v, "rule", "names", "action", "errno", "reason", "args")
	if f[2].Kind == 0 {
		d.fail(v.At, "a rule needs an action", "one of "+strings.Join(seccomp.Dos[:], ", "))
	}
	r.Name, r.Reason, r.Outcome = ruleName(d.word(f[0]), i), d.word(f[4]), d.outcome(f[2], f[3])
	names := d.words(f[1])
	if len(names) == 0 {
		d.fail(v.At, "a rule needs the names of system calls", `names = ["ptrace"]`)
	}
	for _, name := range names {
		switch {
		case !seccomp.Known(name.Text):
			d.fail(name.At, fmt.Sprintf("unknown system call %q", name.Text), hint.DidYouMean(name.Text, seccomp.AllCalls()))
		case slices.Contains(r.Calls, name.Text):
			d.fail(name.At, fmt.Sprintf("%q stands in this rule twice", name.Text), "")
		}
		r.Calls = append(r.Calls, name.Text)
	}
	for _, item := range d.list(f[5]) {
		r.Args = append(r.Args, d.cond(item))
	}
	return r
}

func (d *document) cond(v value) (c seccomp.Cond) {
	f := d.fields(v, "index", "op", "value", "values", "mask", "width")
	index, op, one, several, mask, width := f[0], f[1], f[2], f[3], f[4], f[5]
	switch {
	case index.Kind == 0:
		d.fail(v.At, "a condition needs an index", "index = 0 is the call's first argument")
	case index.Kind != located.Integer || len(index.Text) > 1 || index.Text > "5":
		d.fail(index.At, "a system call has the arguments 0 to 5", "")
	case width.Kind == 0:
		d.fail(v.At, "a condition needs a width",
			"width = 32 where the kernel takes an int, 64 where it takes a long or a pointer: upper bits that it ignores must not decide")
	case width.Kind != located.Integer || width.Text != "32" && width.Text != "64":
		d.fail(width.At, "width is 32 or 64", "")
	}
	c.Index, c.Width = uint8(d.number(index, 5)), uint8(d.number(width, 64))
	if op.Kind == 0 {
		op.At = v.At
	}
	c.Op = seccomp.Op(d.oneOf(op, "op", seccomp.Ops[:]))
	if mask.Kind != 0 {
		bits := d.bits(mask, c.Bits())
		if bits == 0 {
			d.fail(mask.At, "a mask of 0 compares nothing", "")
		}
		if bits != c.Bits() { // so that a mask of everything is the same policy as none
			c.Mask = bits
		}
	}
	switch many := c.Op == seccomp.In || c.Op == seccomp.NotIn; {
	case many && (one.Kind != 0 || len(d.list(several)) == 0):
		d.fail(v.At, fmt.Sprintf("op %q takes values", c.Op), "values = [1, 2]")
	case !many && (several.Kind != 0 || one.Kind == 0):
		d.fail(v.At, fmt.Sprintf("op %q takes one value", c.Op), "value = 1")
	case !many:
		c.Values = []uint64{d.bits(one, c.Bits())}
	}
	for _, item := range several.Items {
		c.Values = append(c.Values, d.bits(item, c.Bits()))
	}
	return c
}

// bits reads a value that is compared, which must lie within those that are: otherwise nothing would
// ever be equal to it, and the rule be another one than it looks.
func (d *document) bits(v value, within uint64) (n uint64) {
	switch v.Kind {
	case located.Integer:
		i, _ := strconv.ParseInt(v.Text, 10, 64) // TOML has no others
		if n = uint64(i); i < 0 {
			d.fail(v.At, fmt.Sprintf("%d is negative, and arguments are compared without sign", i), fmt.Sprintf("%#x in 32 bits, \"%#x\" in 64", uint32(i), n))
		}
	case located.String:
		var err error
		if n, err = seccomp.Value(v.Text); err != nil {
			d.failWith(v.At, err)
		}
	default:
		d.fail(v.At, "a value is a whole number or a string", "")
	}
	switch {
	case n&^within == 0:
	case within == math.MaxUint32:
		d.fail(v.At, fmt.Sprintf("%#x has more than 32 bits", n), "width = 64 compares all of the argument")
	default:
		d.fail(v.At, fmt.Sprintf("%#x has bits outside of the mask %#x", n, within), "")
	}
	return n
}
