package terminal

import "bytes"

// altScreen knows whether a terminal shows its alternate screen, as editors and
// pagers make it do: private modes 47, 1047 and 1049.
type altScreen struct {
	on    bool
	carry []byte // an escape sequence that isn't complete yet
}

// maxSequence is the longest mode sequence that is waited for.
const maxSequence = 64

func (a *altScreen) feed(p []byte) {
	if len(a.carry) > 0 {
		p = append(a.carry, p...)
		a.carry = nil
	}
	for {
		i := bytes.IndexByte(p, 0x1b)
		if i < 0 {
			return
		}
		p = p[i:]
		n, complete := a.sequence(p)
		if !complete {
			if len(p) <= maxSequence {
				a.carry = bytes.Clone(p)
			}
			return
		}
		p = p[n:]
	}
}

// sequence looks at one escape sequence at the head of p and returns how much of it is done with.
func (a *altScreen) sequence(p []byte) (n int, complete bool) {
	const head = "\x1b[?"
	for i := 1; i < len(head); i++ {
		if i == len(p) {
			return 0, false
		}
		if p[i] != head[i] {
			return i, true
		}
	}
	mode, hit := 0, false
	for i := len(head); i < len(p); i++ {
		switch ch := p[i]; {
		case ch >= '0' && ch <= '9':
			mode = min(mode*10+int(ch-'0'), 9999)
		case ch == ';' || ch == 'h' || ch == 'l':
			hit = hit || mode == 47 || mode == 1047 || mode == 1049
			mode = 0
			if ch != ';' {
				if hit {
					a.on = ch == 'h'
				}
				return i + 1, true
			}
		default:
			return i, true
		}
	}
	return len(p), len(p) > maxSequence
}
