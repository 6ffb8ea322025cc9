package network

import (
	"iter"
	"net/netip"
	"strconv"
)

// Policy is what a user said, in canonical words.
type Policy struct {
	Allow, Deny   []string
	Ports         []int // for allowed words without a port of their own; empty: any
	BlockInternal bool
}

// Rules is a compiled Policy. It doesn't change: any number may ask it at once. The zero
// value allows nothing.
type Rules struct {
	allow, deny  list
	ports        []uint16
	openInternal bool
}

// rule is one word.
type rule struct {
	word   string // canonical
	scheme string
	host   string
	port   uint16 // 0: none of its own
	claim  Claim
	path   string // decoded; "" is any
	below  bool   // the path is where the paths begin

	labels    []string     // of a name or a pattern
	prefix    netip.Prefix // or else of addresses
	localhost bool         // localhost or a name below it
	loopback  bool         // it stands for the caller's loopback: localhost, or addresses there
}

// target is what rules are about: the caller's loopback, a name, or an address.
type target struct {
	loopback bool
	name     string
	addr     netip.Addr
}

// list is rules; those for one name are found by it.
type list struct {
	exact map[string][]*rule
	rest  []*rule
	all   []*rule
}

// Compile reads the words. The error is an *Error.
func Compile(p Policy) (*Rules, error) {
	r := &Rules{openInternal: !p.BlockInternal}
	for _, port := range p.Ports {
		n, msg := parsePort(strconv.Itoa(port))
		if msg != "" {
			return nil, &Error{Word: strconv.Itoa(port), Msg: msg, Hint: "a port is a number from 1 to 65535"}
		}
		r.ports = append(r.ports, n)
	}
	if err := r.allow.fill(p.Allow, parse); err != nil {
		return nil, err
	}
	if err := r.deny.fill(p.Deny, parseDeny); err != nil {
		return nil, err
	}
	return r, nil
}

func (l *list) fill(words []string, read func(string) (*rule, error)) error {
	l.exact = make(map[string][]*rule)
	for _, word := range words {
		one, err := read(word)
		if err != nil {
			if e, ok := err.(*Error); ok {
				e.Word = word
			}
			return err
		}
		l.all = append(l.all, one)
		if one.single() {
			l.exact[one.host] = append(l.exact[one.host], one)
		} else {
			l.rest = append(l.rest, one)
		}
	}
	return nil
}

// candidates are all rules that could be about a target.
func (l *list) candidates(t target) iter.Seq[*rule] {
	return func(yield func(*rule) bool) {
		if t.name != "" {
			for _, r := range l.exact[t.name] {
				if !yield(r) {
					return
				}
			}
		}
		for _, r := range l.rest {
			if !yield(r) {
				return
			}
		}
	}
}
