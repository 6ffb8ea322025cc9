package cgroup

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"
)

// useconds is the unit of cpu.stat and of the pressure files.
const useconds = time.Microsecond

// number is the decimal that text begins with. "max" is none.
func number(text []byte) (n int64, ok bool) {
	for i, c := range text {
		if c < '0' || c > '9' {
			return n, i > 0
		}
		if n > (1<<63-1-9)/10 {
			return 1<<63 - 1, true // v1 gives "no limit" as a number up here
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(text) > 0
}

// count is a file that holds one number.
func count(text []byte) Count {
	n, ok := number(text)
	return Count{n, ok}
}

// field is the number after a key that begins a line, as in cpu.stat.
func field(text []byte, key string) Count {
	for line := range bytes.Lines(text) {
		if len(line) > len(key) && line[len(key)] == ' ' && string(line[:len(key)]) == key {
			return count(line[len(key)+1:])
		}
	}
	return Count{}
}

// span is a count of units as a time.
func span(c Count, unit time.Duration) Span {
	return Span{time.Duration(c.N) * unit, c.Known}
}

// total is the time, in microseconds, at the end of the line of a pressure
// file that begins with this word.
func total(text []byte, word string) Span {
	for line := range bytes.Lines(text) {
		if at := bytes.LastIndexByte(line, '='); at >= 0 && bytes.HasPrefix(line, []byte(word+" ")) {
			return span(count(line[at+1:]), useconds)
		}
	}
	return Span{}
}

// sums adds up what follows a key with '=' anywhere in the text, as in io.stat.
// A file without lines is one without any input or output.
func sums(text []byte, key string) Count {
	all := Count{Known: true}
	for {
		at := bytes.Index(text, []byte(key))
		if at < 0 {
			return all
		}
		text = text[at+len(key):]
		n, _ := number(text)
		all.N += n
	}
}

// hasWord: one of the words of a list with blanks between.
func hasWord(list []byte, word string) bool {
	return slices.ContainsFunc(bytes.Fields(list), func(w []byte) bool { return string(w) == word })
}

// owner is the process that made a cgroup and will remove it. The name of the
// cgroup says who it is, so that whoever comes after its death can tell.
type owner struct {
	pid   int
	start int64 // ticks since boot, as in /proc/PID/stat
	// spaces is the inodes of its pid namespace, in which the pid holds, and of its
	// time namespace, in which the start does.
	spaces uint64
}

const (
	namePrefix = "confine-"
	selfSuffix = "-self" // the leaf that the owner moved itself to
)

// name is a new one. The random part keeps apart the cgroups of one owner.
func (o owner) name(random uint32) string {
	b := make([]byte, 0, 64)
	b = strconv.AppendInt(append(b, namePrefix...), int64(o.pid), 10)
	b = strconv.AppendInt(append(b, '-'), o.start, 10)
	b = strconv.AppendUint(append(b, '-'), o.spaces, 16)
	b = strconv.AppendUint(append(b, '-'), uint64(random), 16)
	return string(b)
}

// parseName reads the owner from a name. What confine did not make has none.
func parseName(name string) (o owner, ok bool) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return o, false
	}
	parts := strings.Split(strings.TrimSuffix(rest, selfSuffix), "-")
	if len(parts) != 4 {
		return o, false
	}
	var errs [4]error
	o.pid, errs[0] = strconv.Atoi(parts[0])
	o.start, errs[1] = strconv.ParseInt(parts[1], 10, 64)
	o.spaces, errs[2] = strconv.ParseUint(parts[2], 16, 64)
	_, errs[3] = strconv.ParseUint(parts[3], 16, 32)
	return o, errs == [4]error{} && o.pid > 0 && o.start >= 0
}

// startOf is field 22 of /proc/PID/stat. The command's name before it is anybody's to
// choose; the last parenthesis is the kernel's.
func startOf(stat string) (ppid int, start int64, ok bool) {
	const fieldPPID, fieldStart = 1, 19 // after the name
	at := strings.LastIndexByte(stat, ')')
	if at < 0 {
		return 0, 0, false
	}
	fields := strings.Fields(stat[at+1:])
	if len(fields) <= fieldStart {
		return 0, 0, false
	}
	ppid, err := strconv.Atoi(fields[fieldPPID])
	start, err2 := strconv.ParseInt(fields[fieldStart], 10, 64)
	return ppid, start, err == nil && err2 == nil
}
