package names

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// told is what a server said about refusals.
type told struct {
	mu  sync.Mutex
	all []string
}

func (l *told) refused(name string, why Why) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, name+" "+string(why))
}

func (l *told) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "; ")
}

// allowed is what the servers of these tests allow.
func allowed(name string) bool {
	return name == "example.org" || strings.HasSuffix(name, ".example.org") || strings.HasSuffix(name, ".example.net") ||
		strings.HasSuffix(name, ".allowed.arpa")
}

// exists says that names of example.org exist, those that begin with "gone" don't, and
// that about others nothing could be found out.
func exists(_ context.Context, name string) error {
	switch {
	case strings.HasPrefix(name, "gone"):
		return ErrNotFound
	case strings.HasSuffix(name, "example.org"):
		return nil
	}
	return errors.New("nobody knows")
}

func newServer() (*Server, *told) {
	log := new(told)
	return &Server{Pool: new(Pool), Allowed: allowed, Exists: exists, Refused: log.refused}, log
}

// asking is a query as the library writes one.
func asking(t testing.TB, name string, qtype dnsmessage.Type, change ...func(*dnsmessage.Message)) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 0xbeef, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: qtype, Class: dnsmessage.ClassINET}},
	}
	for _, f := range change {
		f(&m)
	}
	msg, err := m.Pack()
	if err != nil {
		t.Fatalf("%q: %v", name, err)
	}
	return msg
}

// options adds an OPT.
func options(size int, version uint8, flags uint32, opts ...dnsmessage.Option) func(*dnsmessage.Message) {
	return func(m *dnsmessage.Message) {
		h := dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("."), Type: dnsmessage.TypeOPT,
			Class: dnsmessage.Class(size), TTL: uint32(version)<<16 | flags}
		m.Additionals = append(m.Additionals, dnsmessage.Resource{Header: h, Body: &dnsmessage.OPTResource{Options: opts}})
	}
}

// ask is an exchange over UDP.
func ask(t testing.TB, s *Server, msg []byte) *dnsmessage.Message {
	t.Helper()
	reply := s.Answer(context.Background(), msg, false)
	if reply == nil {
		t.Fatalf("no answer to %x", msg)
	}
	m := new(dnsmessage.Message)
	if err := m.Unpack(reply); err != nil {
		t.Fatalf("the answer %x: %v", reply, err)
	}
	return m
}

// said is an answer in a word: its code, or what it points to.
func said(m *dnsmessage.Message) string {
	words := []string{}
	for _, r := range m.Answers {
		switch body := r.Body.(type) {
		case *dnsmessage.AResource:
			words = append(words, netip.AddrFrom4(body.A).String())
		case *dnsmessage.AAAAResource:
			words = append(words, netip.AddrFrom16(body.AAAA).String())
		case *dnsmessage.PTRResource:
			words = append(words, body.PTR.String())
		default:
			words = append(words, r.Header.Type.String())
		}
	}
	if len(words) == 0 {
		words = append(words, strings.TrimPrefix(m.RCode.String(), "RCode"))
	}
	return strings.Join(words, " ")
}
