package tree

import (
	"bytes"
	"strings"
)

// Seen is a process of a sample, as it is told to people.
type Seen struct {
	PID, Parent int   // as seen inside
	Start       int64 // by Clock; with the number it names a process for good
	Name        string
	Dead        bool // a zombie
}

// Each tells of everybody in a tree's last sample.
func Each(t *Tree, tell func(Seen)) {
	for i := range t.cur {
		if p := &t.cur[i]; !p.root {
			tell(Seen{PID: int(p.pid), Parent: int(p.ppid), Start: p.start, Name: p.describe(0).Name, Dead: p.dead()})
		}
	}
}

// Words are the command line of a process of a tree's last sample, at most so many bytes of it; cut says that there is more.
// It chooses them itself, and may have none.
func Words(t *Tree, p Seen, most int) (words []string, cut bool) {
	fd, err := t.reader.open(int32(p.PID), "cmdline", flagsFile)
	if err != nil {
		return nil, false
	}
	text := make([]byte, most+1)
	n, err := readOnce(fd, text)
	var now stat
	if err != nil || n == 0 || t.stat(int32(p.PID), &now) != nil || now.start != p.Start {
		return nil, false // the number is somebody else's by now
	}
	if cut = n > most; cut {
		n = most
	}
	text = bytes.TrimSuffix(text[:n], []byte{0})
	return strings.Split(strings.ToValidUTF8(string(text), "\uFFFD"), "\x00"), cut
}
