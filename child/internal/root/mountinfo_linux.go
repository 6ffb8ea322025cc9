package root

import (
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/internal/linux"
)

// mountEntry is what verify needs of one line of mountinfo.
type mountEntry struct {
	id, parent string
	point      string
	options    string // per mount, "ro,nosuid,…"
	super      string // of the file system, the last field
}

// mountTable reads mountinfo of our own mount namespace.
func mountTable() ([]mountEntry, error) {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fault.Of("open", "/proc/self/mountinfo", err)
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 8<<10)
	for {
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
		n, err := linux.Again(func() (int, error) { return unix.Read(fd, text[len(text):cap(text)]) })
		if err != nil {
			return nil, fault.Of("read", "/proc/self/mountinfo", err)
		}
		if n == 0 {
			break
		}
		text = text[:len(text)+n]
	}
	table, ok := parseMountinfo(unsafe.String(unsafe.SliceData(text), len(text)))
	if !ok {
		return nil, fault.Of("parse", "/proc/self/mountinfo", unix.EINVAL)
	}
	return table, nil
}

// parseMountinfo takes the first two, the fifth, sixth and last field of every line; see proc(5).
func parseMountinfo(text string) ([]mountEntry, bool) {
	table := make([]mountEntry, 0, strings.Count(text, "\n"))
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		var before [4]string // mount id, parent id, device, root
		for i := range before {
			var ok bool
			if before[i], line, ok = strings.Cut(line, " "); !ok {
				return nil, false
			}
		}
		point, after, ok := strings.Cut(line, " ")
		if !ok {
			return nil, false
		}
		options, _, ok := strings.Cut(after, " ")
		if !ok || !strings.HasPrefix(point, "/") {
			return nil, false
		}
		super := line[strings.LastIndexByte(line, ' ')+1:]
		table = append(table, mountEntry{before[0], before[1], linux.Unescape(point), options, super})
	}
	return table, true
}

func (m *mountEntry) has(option string) bool { return lists(m.options, option) }

// lists says whether option is among options, which commas separate.
func lists(options, option string) bool {
	for rest := options; rest != ""; {
		var one string
		one, rest, _ = strings.Cut(rest, ",")
		if one == option {
			return true
		}
	}
	return false
}
