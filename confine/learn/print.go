package learn

import (
	"strings"
	"unicode/utf8"
)

// mark begins the comments that learn has written and writes anew. Others are a person's.
const mark = "## "

// TOML is the file: a policy file that uses the profile, so that
// "confine --config FILE -- COMMAND" is all that it takes.
func (p *Profile) TOML() string { return p.document().String() }

func (p *Profile) document() *document {
	d := &document{}
	for _, n := range p.Notes {
		d.head = append(d.head, mark+n)
	}
	d.section("sandbox").set(Line{Key: "profile", Value: quote(p.Name)})
	for _, t := range p.Tables {
		name := "sandbox.profiles." + bareKey(p.Name)
		if t.Name != "" {
			name += "." + t.Name
		}
		s := d.section(name)
		if t.Name == "" {
			s.set(Line{Key: "extends", Value: quote("strict")})
		}
		for _, l := range t.Lines {
			s.set(l)
		}
	}
	return d
}

// String is a line, or several for a list.
func (l *Line) String() string {
	var b strings.Builder
	b.WriteString(l.Key + " = ")
	switch {
	case l.list && len(l.Items) == 0:
		b.WriteString("[]")
	case l.list:
		b.WriteString("[\n")
		for _, i := range l.Items {
			b.WriteString("    " + quote(i.Word) + ",")
			if i.Why != "" {
				b.WriteString(" # " + i.Why)
			}
			b.WriteString("\n")
		}
		b.WriteString("]")
	default:
		b.WriteString(l.Value)
	}
	if l.Why != "" {
		b.WriteString(" # " + l.Why)
	}
	return b.String()
}

// bareKey quotes a key where it has to be.
func bareKey(k string) string {
	for i := range len(k) {
		if c := k[i]; !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return quote(k)
		}
	}
	if k == "" {
		return `""`
	}
	return k
}

// quote makes a basic string. TOML can't hold what is not UTF-8.
func quote(s string) string {
	const hex = "0123456789ABCDEF"
	b := []byte{'"'}
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ' || r == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return string(append(b, '"'))
}
