package audit

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// The types of records: AUDIT_LANDLOCK_ACCESS and AUDIT_LANDLOCK_DOMAIN.
const (
	typeAccess = 1423
	typeDomain = 1424
)

// Denial is something that Landlock refused.
type Denial struct {
	Blockers []string // "fs.read_file", "scope.signal"
	Path     string   // as the process sees it; "" when it is about no file
}

// fields are the words of a record, "audit(1729738800.268:30): domain=195ba459b …".
func fields(text string) map[string]string {
	_, rest, ok := strings.Cut(text, "): ")
	if !ok {
		return nil
	}
	all := make(map[string]string)
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimLeft(rest, " ") {
		key, value, ok := strings.Cut(rest, "=")
		if !ok {
			break
		}
		if quoted, found := strings.CutPrefix(value, `"`); found {
			all[key], rest, _ = strings.Cut(quoted, `"`)
			continue
		}
		value, rest, _ = strings.Cut(value, " ")
		if key == "path" || key == "comm" || key == "exe" { // what isn't plain text is in hexadecimal
			if b, err := hex.DecodeString(value); err == nil {
				value = string(b)
			}
		}
		all[key] = value
	}
	return all
}

// most bounds the denials that wait for their domain to be named, and the domains.
const most = 256

// matcher puts records together.
type matcher struct {
	ours    func(pid int) bool
	domains map[string]bool // named, and ours or not
	waiting map[string][]Denial
	count   int // of those that wait
}

// take gives the denials that are ours by now.
func (m *matcher) take(kind uint16, text string) []Denial {
	f := fields(text)
	domain := f["domain"]
	switch {
	case domain == "":
		return nil
	case kind == typeAccess:
		d := Denial{Path: f["path"]}
		if f["blockers"] != "" {
			d.Blockers = strings.Split(f["blockers"], ",")
		}
		if ours, named := m.domains[domain]; named {
			if ours {
				return []Denial{d}
			}
		} else if m.count < most {
			m.waiting[domain] = append(m.waiting[domain], d)
			m.count++
		}
	case kind == typeDomain && f["status"] == "allocated":
		pid, err := strconv.Atoi(f["pid"])
		ours := err == nil && m.ours(pid)
		if len(m.domains) < most || ours {
			m.domains[domain] = ours
		}
		all := m.waiting[domain]
		delete(m.waiting, domain)
		m.count -= len(all)
		if ours {
			return all
		}
	}
	return nil
}
