package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// zone is what the world's resolver answers. A line of its file is
//
//	NAME a ADDRESS,…[|ADDRESS,…]…   both families in one list; after each | for the next
//	                                question of that type, and the last for all that follow
//	NAME cname NAME
//	NAME nx | fail | silent         no such name, SERVFAIL, no answer at all
//
// What isn't in it and ends in .test is a server of the world's; anything else doesn't exist.
type zone struct {
	mu    sync.Mutex
	names map[string]*record
}

type record struct {
	kind  string
	lists [][]netip.Addr
	asked map[dnsmessage.Type]int
	cname string
}

// public are addresses that nobody takes for internal ones.
var public = []netip.Addr{netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("2606:2800:220:1:248:1893:25c8:1946")}

func readZone(path string) (*zone, error) {
	z := &zone{names: map[string]*record{}}
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return z, nil
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		r := &record{kind: f[1], asked: map[dnsmessage.Type]int{}}
		switch {
		case r.kind == "a" && len(f) == 3:
			for list := range strings.SplitSeq(f[2], "|") {
				var some []netip.Addr
				for word := range strings.SplitSeq(list, ",") {
					a, err := netip.ParseAddr(word)
					if err != nil {
						return nil, fmt.Errorf("names: %w", err)
					}
					some = append(some, a)
				}
				r.lists = append(r.lists, some)
			}
		case r.kind == "cname" && len(f) == 3:
			r.cname = f[2]
		case len(f) == 2 && (r.kind == "nx" || r.kind == "fail" || r.kind == "silent"):
		default:
			return nil, fmt.Errorf("names: %q", line)
		}
		z.names[f[0]] = r
	}
	return z, err
}

// addresses are those of a type that are given this time.
func (z *zone) addresses(name string, t dnsmessage.Type) (kind string, list []netip.Addr, cname string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	r := z.names[name]
	if r == nil {
		r = &record{kind: "nx"}
		if strings.HasSuffix(name, ".test") {
			r = &record{kind: "a", lists: [][]netip.Addr{public}, asked: map[dnsmessage.Type]int{}}
		}
	}
	if r.kind != "a" {
		return r.kind, nil, r.cname
	}
	for _, a := range r.lists[min(r.asked[t], len(r.lists)-1)] {
		// What is IPv4 mapped into IPv6 is a record of IPv6.
		if a.Is4() == (t == dnsmessage.TypeA) {
			list = append(list, a)
		}
	}
	r.asked[t]++
	return r.kind, list, ""
}

func (z *zone) answer(query []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	name := strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")
	seen.add("dns %s %s", name, strings.TrimPrefix(q.Type.String(), "Type"))
	head := dnsmessage.Header{ID: h.ID, Response: true, RecursionDesired: h.RecursionDesired, RecursionAvailable: true}
	var answers []dnsmessage.Resource
	owner := q.Name
	for range 8 {
		kind, list, cname := z.addresses(name, q.Type)
		switch kind {
		case "nx":
			head.RCode = dnsmessage.RCodeNameError
		case "fail":
			head.RCode = dnsmessage.RCodeServerFailure
		case "silent":
			return nil
		case "cname":
			to := dnsmessage.MustNewName(cname + ".")
			answers = append(answers, resource(owner, dnsmessage.TypeCNAME, &dnsmessage.CNAMEResource{CNAME: to}))
			name, owner = cname, to
			continue
		}
		for _, a := range list {
			if a.Is4() {
				answers = append(answers, resource(owner, dnsmessage.TypeA, &dnsmessage.AResource{A: a.As4()}))
			} else if q.Type == dnsmessage.TypeAAAA {
				answers = append(answers, resource(owner, dnsmessage.TypeAAAA, &dnsmessage.AAAAResource{AAAA: a.As16()}))
			}
		}
		break
	}
	m := dnsmessage.Message{Header: head, Questions: []dnsmessage.Question{q}, Answers: answers}
	b, _ := m.Pack()
	return b
}

func resource(name dnsmessage.Name, t dnsmessage.Type, body dnsmessage.ResourceBody) dnsmessage.Resource {
	return dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name, Type: t, Class: dnsmessage.ClassINET, TTL: 1}, Body: body}
}

// serve answers at every address.
func (z *zone) serve() error {
	if err := datagrams(53, func(_ netip.Addr, payload []byte) []byte { return z.answer(payload) }); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "[::]:53")
	if err != nil {
		return err
	}
	streams(l, func(c *net.TCPConn) {
		var size [2]byte
		for {
			if _, err := io.ReadFull(c, size[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(c, query); err != nil {
				return
			}
			b := z.answer(query)
			if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)); err != nil {
				return
			}
		}
	})
	return nil
}
