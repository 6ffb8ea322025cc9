package cgroup

import (
	"bytes"
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
	for len(text) > 0 {
		line := text
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			line, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
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
	for len(text) > 0 {
		line := text
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			line, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
		if !bytes.HasPrefix(line, []byte(word+" ")) {
			continue
		}
		if at := bytes.LastIndexByte(line, '='); at >= 0 {
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
	for len(list) > 0 {
		end := bytes.IndexAny(list, " \n")
		if end < 0 {
			end = len(list)
		}
		if string(list[:end]) == word {
			return true
		}
		list = list[min(end+1, len(list)):]
	}
	return false
}
