package output

// marker ends a stream that crossed its limit, on a line of its own.
const marker = "[TRUNCATED]"

// bufSize is how much is read at once.
const bufSize = 64 << 10

// ResetTerminal ends whatever a program may have left unfinished on a terminal:
// CAN an escape sequence, SI and ESC ( B another character set, ESC [ 0 m colours.
const ResetTerminal = "\x18\x0f\x1b(B\x1b[0m"

// meter holds one stream to its limit. It sees lengths and, where it matters,
// the last byte: most bytes never pass through our memory.
type meter struct {
	limit  int64 // 0: none
	total  int64 // written by the target
	passed int64
	last   byte // of what passed
	over   bool
	due    int64 // of total: what had been written when the target ended; -1: that isn't known yet
}

// room is how many bytes may still pass.
func (m *meter) room() int64 {
	if m.limit == 0 {
		return 1<<63 - 1
	}
	return m.limit - m.passed
}

// moved counts n bytes that passed unseen. They must fit and must not be the last ones.
func (m *meter) moved(n int64) {
	m.total += n
	m.passed += n
}

// admit counts p and returns the part of it that may pass. Exactly the limit
// is not over it: only a byte more is.
func (m *meter) admit(p []byte) []byte {
	m.total += int64(len(p))
	if room := m.room(); int64(len(p)) > room {
		p, m.over = p[:room], true
	}
	if len(p) > 0 {
		m.passed += int64(len(p))
		m.last = p[len(p)-1]
	}
	return p
}

// mark is what follows the last byte that passed.
func (m *meter) mark(terminal bool) string {
	nl, start := "\n", ""
	if terminal {
		// The caller's terminal may be raw, and may be in the middle of anything.
		nl, start = "\r\n", ResetTerminal
	}
	if m.passed > 0 && m.last != '\n' {
		start += nl
	}
	return start + marker + nl
}
