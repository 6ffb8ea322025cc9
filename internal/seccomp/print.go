package seccomp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
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
		fmt.Fprintf(&b, "default_errno = %q\n", ErrnoName(p.Default.Errno))
	}
	for i := range p.Rules {
		p.Rules[i].toml(&b)
	}
	return b.String()
}

// TOML prints the rule as it stands in a policy file.
func (r *Rule) TOML() string {
	var b strings.Builder
	r.toml(&b)
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
		fmt.Fprintf(b, "errno = %q\n", ErrnoName(r.Outcome.Errno))
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
	if word := constantOf(kindOf(calls[0], c.Index), v); word != "" {
		return strconv.Quote(word)
	}
	return tomlNumber(v)
}

func tomlNumber(v uint64) string {
	if v > 1<<63-1 { // more than a TOML integer holds
		return strconv.Quote(plain(v))
	}
	return plain(v)
}

// flags is the mask as constants, when there is one for each bit.
func (c *Cond) flags(calls []string) string {
	if words, rest := flags(kindOf(calls[0], c.Index), c.Mask); rest == 0 {
		return strconv.Quote(strings.Join(words, "|"))
	}
	return tomlNumber(c.Mask)
}

func quoted(words []string) string {
	q := make([]string, len(words))
	for i, w := range words {
		q[i] = strconv.Quote(w)
	}
	return strings.Join(q, ", ")
}

// Digest is "sha256:" and the digest of what the policy decides: outcomes,
// calls and conditions, rule by rule. Names, reasons, comments, the order of
// calls within a rule, and the file's name don't count; nor do the action and
// the architecture, which the policy does not depend on. So a copy of a policy
// that ships, as printed, has the digest of the original.
func (p *Policy) Digest() string {
	sum := sha256.Sum256(p.canonical())
	return "sha256:" + hex.EncodeToString(sum[:])
}

// canonical is one line for the default and one for each rule:
//
//	errno ENOSYS clone3
//	refuse ioctl if 1/32 in 0x5412 0x541c
func (p *Policy) canonical() []byte {
	b := make([]byte, 0, 8<<10)
	b = append(b, "default "...)
	b = append(b, p.Default.String()...)
	b = append(b, '\n')
	for i := range p.Rules {
		r := &p.Rules[i]
		b = append(b, r.Outcome.String()...)
		calls := slices.Clone(r.Calls)
		slices.Sort(calls)
		for _, name := range slices.Compact(calls) {
			b = append(b, ' ')
			b = append(b, name...)
		}
		for _, c := range r.Args {
			b = append(b, " if "...)
			b = strconv.AppendUint(b, uint64(c.Index), 10)
			b = append(b, '/')
			b = strconv.AppendUint(b, uint64(c.Width), 10)
			if c.Mask != 0 {
				b = append(b, "&0x"...)
				b = strconv.AppendUint(b, c.Mask, 16)
			}
			b = append(b, ' ')
			b = append(b, c.Op.String()...)
			for _, v := range c.Values {
				b = append(b, " 0x"...)
				b = strconv.AppendUint(b, v, 16)
			}
		}
		b = append(b, '\n')
	}
	return b
}
