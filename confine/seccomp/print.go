package seccomp

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/quote"
)

// TOML prints the policy as a policy file. Read again, it is the same policy.
func (p *Policy) TOML() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s %s\n", quote.TOML(p.Version), p.Digest())
	fmt.Fprintf(&b, "default_action = %q\n", p.Default.Do)
	if p.Default.Do == Errno && p.Default.Errno != eperm {
		fmt.Fprintf(&b, "default_errno = %q\n", errnoName(p.Default.Errno))
	}
	for i := range p.Rules {
		p.Rules[i].toml(&b)
	}
	return b.String()
}

func (r *Rule) toml(b *strings.Builder) {
	fmt.Fprintf(b, "\n[[rules]]\nrule = %s\n", quote.TOML(r.Name))
	if len(r.Calls) <= 6 {
		fmt.Fprintf(b, "names = [%s]\n", quoted(r.Calls))
	} else {
		b.WriteString("names = [\n")
		for i := 0; i < len(r.Calls); i += 6 {
			fmt.Fprintf(b, "  %s,\n", quoted(r.Calls[i:min(i+6, len(r.Calls))]))
		}
		b.WriteString("]\n")
	}
	if len(r.Args) > 0 {
		var args []string
		for i := range r.Args {
			args = append(args, r.Args[i].toml(r.Calls))
		}
		fmt.Fprintf(b, "args = [%s]\n", strings.Join(args, ", "))
	}
	fmt.Fprintf(b, "action = %q\n", r.Outcome.Do)
	if r.Outcome.Do == Errno {
		fmt.Fprintf(b, "errno = %q\n", errnoName(r.Outcome.Errno))
	}
	if r.Reason != "" {
		fmt.Fprintf(b, "reason = %s\n", quote.TOML(r.Reason))
	}
}

func (c *Cond) toml(calls []string) string {
	s := fmt.Sprintf("{ index = %d, op = %q, ", c.Index, c.Op)
	if c.Op == In || c.Op == NotIn {
		var values []string
		for _, v := range c.Values {
			values = append(values, c.word(calls, v))
		}
		s += "values = [" + strings.Join(values, ", ") + "]"
	} else {
		s += "value = " + c.word(calls, c.Values[0])
	}
	if c.Mask != 0 {
		s += ", mask = " + c.flags(calls)
	}
	return s + fmt.Sprintf(", width = %d }", c.Width)
}

// word is the value as its constant or as a number.
func (c *Cond) word(calls []string, v uint64) string {
	for _, k := range constants {
		if k.call == calls[0] && k.index == c.Index && k.value == v {
			return strconv.Quote(k.name)
		}
	}
	return plain(v)
}

func plain(v uint64) string {
	switch {
	case v < 10:
		return strconv.FormatUint(v, 10)
	case v > 1<<63-1: // more than a TOML integer holds
		return fmt.Sprintf(`"%#x"`, v)
	}
	return fmt.Sprintf("%#x", v)
}

// flags is the mask as constants, when there is one for each bit.
func (c *Cond) flags(calls []string) string {
	left, words := c.Mask, []string(nil)
	for _, k := range constants {
		if k.call == calls[0] && k.index == c.Index && k.value != 0 && k.value&(k.value-1) == 0 && left&k.value != 0 {
			left &^= k.value
			words = append(words, k.name)
		}
	}
	if left == 0 {
		return strconv.Quote(strings.Join(words, "|"))
	}
	return plain(c.Mask)
}

func quoted(words []string) string {
	q := make([]string, len(words))
	for i, w := range words {
		q[i] = strconv.Quote(w)
	}
	return strings.Join(q, ", ")
}
