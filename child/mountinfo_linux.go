package child

import (
	"strings"

	"golang.org/x/sys/unix"
)

// mountEntry is what verify needs of one line of mountinfo.
type mountEntry struct {
	point   string
	options string // per mount, "ro,nosuid,…"
}

// mountTable reads mountinfo of our own mount namespace.
func (s *state) mountTable() ([]mountEntry, error) {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fault("open", "/proc/self/mountinfo", err)
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 16<<10)
	for {
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
		n, err := unix.Read(fd, text[len(text):cap(text)])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fault("read", "/proc/self/mountinfo", err)
		}
		if n == 0 {
			break
		}
		text = text[:len(text)+n]
	}
	table, ok := parseMountinfo(string(text))
	if !ok {
		return nil, fault("parse", "/proc/self/mountinfo", unix.EINVAL)
	}
	return table, nil
}

// parseMountinfo takes the fifth and sixth field of every line; see proc(5).
func parseMountinfo(text string) ([]mountEntry, bool) {
	var table []mountEntry
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		for range 4 { // mount id, parent id, device, root
			_, after, ok := strings.Cut(line, " ")
			if !ok {
				return nil, false
			}
			line = after
		}
		point, after, ok := strings.Cut(line, " ")
		if !ok {
			return nil, false
		}
		options, _, ok := strings.Cut(after, " ")
		if !ok || !strings.HasPrefix(point, "/") {
			return nil, false
		}
		table = append(table, mountEntry{unescape(point), options})
	}
	return table, true
}

// unescape turns \040 and the like back; the kernel escapes blanks and "\".
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]) {
			out = append(out, (s[i+1]-'0')<<6|(s[i+2]-'0')<<3|(s[i+3]-'0'))
			i += 3
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}

func octal(c byte) bool { return '0' <= c && c <= '7' }

func (m *mountEntry) has(option string) bool {
	for rest := m.options; rest != ""; {
		var one string
		one, rest, _ = strings.Cut(rest, ",")
		if one == option {
			return true
		}
	}
	return false
}
