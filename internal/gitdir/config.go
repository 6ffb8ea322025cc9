package gitdir

import "strings"

// Setting is a line of git's configuration.
type Setting struct {
	section, Key string // in lower case
	subsection   string // "" where a bracket is in it
	Value        string
}

// ParseConfig reads a configuration file of git's. What git would refuse is read as
// far as it goes: a later version might take it.
func ParseConfig(text string) (all []Setting) {
	s := scanner{rest: strings.TrimPrefix(text, "\ufeff")}
	for section, subsection := "", ""; ; {
		s.skip(spaces + "\n")
		switch {
		case s.rest == "":
			return all
		case s.rest[0] == '#' || s.rest[0] == ';':
			s.until("\n")
		case s.rest[0] == '[':
			head := s.until("]\n") // a subsection can have a bracket in it; then the rest is a strange key
			section = strings.ToLower(strings.TrimLeft(head, "["))
			if i := strings.IndexAny(section, " \t\"."); i >= 0 {
				section = section[:i]
			}
			_, subsection, _ = strings.Cut(head, `"`)
			subsection = unescaped.Replace(strings.TrimSuffix(strings.TrimRight(subsection, spaces), `"`))
			s.subsection(head)
		default:
			key := s.until("=\n#;")
			value := ""
			if strings.HasPrefix(s.rest, "=") {
				s.rest = s.rest[1:]
				value, _, _ = strings.Cut(s.value(), "\x00") // as programs in C see it
			}
			all = append(all, Setting{section, strings.ToLower(strings.TrimSpace(key)), subsection, value})
		}
	}
}

const spaces = " \t\r"

var unescaped = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

type scanner struct{ rest string }

func (s *scanner) skip(set string) { s.rest = strings.TrimLeft(s.rest, set) }

// until takes what stands before one of the bytes of ends.
func (s *scanner) until(ends string) (text string) {
	i := strings.IndexAny(s.rest, ends)
	if i < 0 {
		i = len(s.rest)
	}
	text, s.rest = s.rest[:i], s.rest[i:]
	return text
}

// subsection goes to the end of a head, of which the text up to the first bracket was read.
func (s *scanner) subsection(head string) {
	quoted := false
	for i := 0; i < len(head); i++ {
		switch head[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		}
	}
	if quoted {
		for i := 0; i < len(s.rest) && s.rest[i] != '\n'; i++ {
			if s.rest[i] == '\\' {
				i++
			} else if s.rest[i] == '"' {
				s.rest = s.rest[i+1:]
				break
			}
		}
		s.until("]\n")
	}
	s.rest = strings.TrimPrefix(s.rest, "]")
}

// value takes a value: without the blanks around it, quotes and comments.
func (s *scanner) value() string {
	var out []byte
	kept, quoted := 0, false // kept is up to where blanks belong to it
	for i := 0; i < len(s.rest); i++ {
		c := s.rest[i]
		switch {
		case c == '\n':
			s.rest = s.rest[i:]
			return string(out[:kept])
		case c == '"':
			quoted = !quoted
			kept = len(out)
			continue
		case c == '\\':
			if i++; i == len(s.rest) {
				continue
			}
			switch c = s.rest[i]; c {
			case '\n':
				continue
			case '\r':
				if strings.HasPrefix(s.rest[i:], "\r\n") {
					i++
					continue
				}
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			}
			out = append(out, c)
			kept = len(out)
			continue
		case !quoted && (c == '#' || c == ';'):
			s.rest = s.rest[i:]
			s.until("\n")
			return string(out[:kept])
		case !quoted && len(out) == 0 && strings.IndexByte(spaces, c) >= 0:
			continue
		}
		out = append(out, c)
		if quoted || strings.IndexByte(spaces, c) < 0 {
			kept = len(out)
		}
	}
	s.rest = ""
	return string(out[:kept])
}
