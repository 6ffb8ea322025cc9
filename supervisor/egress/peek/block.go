package peek

import "bytes"

// block finds the end of lines that an empty one ends, and remembers how far it got.
type block struct {
	start  int // of the line that isn't over
	looked int // no line ends before
}

// find gives the length up to and with the empty line, or 0: it isn't there yet.
func (k *block) find(b []byte, limit int) (int, error) {
	if k.looked > len(b) {
		*k = block{} // these aren't the bytes that were left
	}
	for {
		i := bytes.IndexByte(b[k.looked:min(len(b), limit)], '\n')
		if i < 0 {
			k.looked = min(len(b), limit)
			if len(b) >= limit {
				return 0, refuse(TooLong, "the head or the trailer of a request is too long")
			}
			return 0, nil
		}
		end := k.looked + i + 1
		l, err := cleanLine(b[k.start:end])
		if err != nil {
			return 0, err
		}
		k.start, k.looked = end, end
		if len(l) == 0 {
			return end, nil
		}
	}
}

// cleanLine is a line without its CR LF. No other control characters than tabs are in it.
func cleanLine(l []byte) ([]byte, error) {
	if len(l) < 2 || l[len(l)-2] != '\r' {
		return nil, refuse(BadLine, "a line of a request ends in LF alone")
	}
	l = l[:len(l)-2]
	for _, c := range l {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, refuse(BadLine, "a line of a request has a control character in it")
		}
	}
	return l, nil
}
