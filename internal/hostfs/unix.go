package hostfs

import (
	"slices"
	"strings"
)

// BoundSockets are the files in /proc/net/unix, by name alone. A name may have ends of lines in it.
func BoundSockets(text string) (list []Socket) {
	for line := range strings.Lines(text) {
		name, record := boundName(line)
		switch {
		case !record && len(list) > 0:
			list[len(list)-1].Name += line
		case record:
			list = append(list, Socket{Name: name, UID: -1})
		}
	}
	for i := range list {
		list[i].Name = strings.TrimSuffix(list[i].Name, "\n")
	}
	return slices.DeleteFunc(list, func(s Socket) bool { return s.Name == "" || s.Name[0] == '@' || s.Name[0] == '\n' })
}

// boundName is the name in a line of the kernel's list; record says whether it is the
// beginning of an entry.
func boundName(line string) (name string, record bool) {
	const columns = 7 // before the name
	rest := line
	for i := range columns {
		rest = strings.TrimLeft(rest, " ")
		end := strings.IndexAny(rest, " \n")
		if end < 1 {
			return "", false
		}
		if i == 0 && (rest[end-1] != ':' || strings.Trim(rest[:end-1], "0123456789abcdef") != "") {
			return "", rest[:end] == "Num" // which nothing may be added to
		}
		rest = rest[end:]
	}
	return strings.TrimPrefix(rest, " "), true
}
