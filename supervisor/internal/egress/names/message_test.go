package names

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/confine-run/confine/internal/network"
)

// header is the first twelve bytes of a query with one question, and what was changed in it.
func header(change ...func([]byte)) []byte {
	h := []byte{0xbe, 0xef, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for _, f := range change {
		f(h)
	}
	return h
}

func set(at int, v byte) func([]byte) { return func(h []byte) { h[at] = v } }

// message is a header, a name in the wire's form, and what follows.
func message(h []byte, name string, rest ...byte) []byte {
	return append(append(h, name...), rest...)
}

const exampleOrg = "\x07example\x03org\x00"

func TestMessagesThatGetNoAnswer(t *testing.T) {
	s, log := newServer()
	good := asking(t, "example.org.", a)
	for i := range headerLen {
		if reply := s.Answer(context.Background(), good[:i], false); reply != nil {
			t.Errorf("%d bytes: %x", i, reply)
		}
	}
	response := bytes.Clone(good)
	response[2] |= 0x80
	if reply := s.Answer(context.Background(), response, false); reply != nil {
		t.Errorf("a response: %x", reply)
	}
	if reply := s.Answer(context.Background(), good, false); reply == nil || log.String() != "" {
		t.Errorf("a query: %x, told %q", reply, log)
	}
}

func TestMessagesThatAreNoPlainQuestion(t *testing.T) {
	in := []byte{0, 1, 0, 1}
	long := strings.Repeat("\x3f"+strings.Repeat("a", 63), 3) // 192 bytes
	opt := "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00"
	for what, c := range map[string]struct {
		msg  []byte
		want dnsmessage.RCode
	}{
		"as it should be":                {message(header(), exampleOrg, in...), dnsmessage.RCodeSuccess},
		"a name of 255 bytes":            {message(header(), long+"\x31"+strings.Repeat("b", 49)+exampleOrg, in...), dnsmessage.RCodeSuccess},
		"a name of 256 bytes":            {message(header(), long+"\x32"+strings.Repeat("b", 50)+exampleOrg, in...), dnsmessage.RCodeFormatError},
		"a name without an end":          {message(header(), strings.Repeat("\x01a", 4000)), dnsmessage.RCodeFormatError},
		"no question":                    {header(set(5, 0)), dnsmessage.RCodeFormatError},
		"a question that isn't there":    {header(), dnsmessage.RCodeFormatError},
		"two questions":                  {message(header(set(5, 2)), exampleOrg+string(in)+exampleOrg, in...), dnsmessage.RCodeFormatError},
		"65535 questions":                {message(header(set(4, 255), set(5, 255)), exampleOrg, in...), dnsmessage.RCodeFormatError},
		"the TC flag":                    {message(header(set(2, 3)), exampleOrg, in...), dnsmessage.RCodeFormatError},
		"a name cut short":               {message(header(), "\x07exam"), dnsmessage.RCodeFormatError},
		"a type cut short":               {message(header(), exampleOrg, 0), dnsmessage.RCodeFormatError},
		"no class":                       {message(header(), exampleOrg, 0, 1), dnsmessage.RCodeFormatError},
		"a dot in a label":               {message(header(), "\x0bexample.org\x00", in...), dnsmessage.RCodeFormatError},
		"a pointer to itself":            {message(header(), "\xc0\x0c", in...), dnsmessage.RCodeFormatError},
		"a label and a pointer to it":    {message(header(), "\x01a\xc0\x0c", in...), dnsmessage.RCodeFormatError},
		"two pointers to each other":     {message(header(), "\xc0\x0e\xc0\x0c", in...), dnsmessage.RCodeFormatError},
		"a pointer out of the message":   {message(header(), "\xff\xff", in...), dnsmessage.RCodeFormatError},
		"a pointer to a name after it":   {message(header(), "\xc0\x12"+string(in)+exampleOrg), dnsmessage.RCodeFormatError},
		"a label and a pointer ahead":    {message(header(), "\x03www\xc0\x16"+string(in)+exampleOrg), dnsmessage.RCodeFormatError},
		"a pointer into the header":      {message(header(), "\x03www\xc0\x04", in...), dnsmessage.RCodeFormatError},
		"a label of type 0x40":           {message(header(), "\x41a\x00", in...), dnsmessage.RCodeFormatError},
		"a label of type 0x80":           {message(header(), "\x81a\x00", in...), dnsmessage.RCodeFormatError},
		"OPT as the type":                {message(header(), exampleOrg, 0, 41, 0, 1), dnsmessage.RCodeFormatError},
		"an additional that isn't there": {message(header(set(11, 1)), exampleOrg, in...), dnsmessage.RCodeFormatError},
		"an answer that isn't there":     {message(header(set(7, 1)), exampleOrg, in...), dnsmessage.RCodeFormatError},
		"an OPT":                         {message(header(set(11, 1)), exampleOrg+string(in)+opt), dnsmessage.RCodeSuccess},
		"an OPT cut short":               {message(header(set(11, 1)), exampleOrg+string(in)+opt[:10]), dnsmessage.RCodeFormatError},
		"two OPTs":                       {message(header(set(11, 2)), exampleOrg+string(in)+opt+opt), dnsmessage.RCodeFormatError},
		"an OPT that isn't the root's":   {message(header(set(11, 1)), exampleOrg+string(in)+"\x01a"+opt), dnsmessage.RCodeFormatError},
		"an OPT with half an option":     {message(header(set(11, 1)), exampleOrg+string(in)+opt[:9]+"\x00\x03\x00\x0a\x00"), dnsmessage.RCodeFormatError},
		"17 additionals":                 {message(header(set(11, 17)), exampleOrg+string(in)+strings.Repeat("\x00\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00", 17)), dnsmessage.RCodeFormatError},
		"IQUERY":                         {message(header(set(2, 1<<3)), exampleOrg, in...), dnsmessage.RCodeNotImplemented},
		"STATUS":                         {message(header(set(2, 2<<3)), exampleOrg, in...), dnsmessage.RCodeNotImplemented},
		"NOTIFY":                         {message(header(set(2, 4<<3)), exampleOrg, 0, 6, 0, 1), dnsmessage.RCodeNotImplemented},
		"UPDATE":                         {message(header(set(2, 5<<3)), exampleOrg, 0, 6, 0, 1), dnsmessage.RCodeNotImplemented},
		"class CHAOS":                    {message(header(), "\x07version\x04bind\x00", 0, 16, 0, 3), dnsmessage.RCodeRefused},
		"class ANY":                      {message(header(), exampleOrg, 0, 1, 0, 255), dnsmessage.RCodeRefused},
		"class NONE":                     {message(header(), exampleOrg, 0, 1, 0, 254), dnsmessage.RCodeRefused},
		"class 0":                        {message(header(), "\x09localhost\x00", 0, 1, 0, 0), dnsmessage.RCodeRefused},
	} {
		s, log := newServer()
		m := ask(t, s, c.msg)
		if m.ID != 0xbeef || m.RCode != c.want || m.OpCode != dnsmessage.OpCode(c.msg[2]>>3&0xf) {
			t.Errorf("%s: %v, want %v", what, m.Header.GoString(), c.want)
		}
		if (m.RCode == dnsmessage.RCodeSuccess) != (len(m.Answers) == 1 && s.Pool.Len() == 1) {
			t.Errorf("%s: %v, %d names", what, m.Answers, s.Pool.Len())
		}
		if refused := m.RCode == dnsmessage.RCodeRefused; refused != strings.HasSuffix(log.String(), " class") {
			t.Errorf("%s: told %q", what, log)
		}
	}
}

func TestOptions(t *testing.T) {
	cookie := dnsmessage.Option{Code: 10, Data: []byte("12345678")}
	padding := dnsmessage.Option{Code: 12, Data: make([]byte, 400)}
	subnet := dnsmessage.Option{Code: 8, Data: []byte{0, 1, 32, 0, 10, 1, 2, 3}}
	const do = 1 << 15
	for _, c := range []struct {
		what string
		opt  func(*dnsmessage.Message)
		want dnsmessage.RCode
	}{
		{"plain", options(4096, 0, 0), dnsmessage.RCodeSuccess},
		{"no size", options(0, 0, 0), dnsmessage.RCodeSuccess},
		{"DNSSEC wanted", options(1232, 0, do), dnsmessage.RCodeSuccess},
		{"options", options(1232, 0, 0, cookie, padding, subnet), dnsmessage.RCodeSuccess},
		{"version 1", options(1232, 1, 0), rcodeBadVersion},
		{"version 255", options(1232, 255, do), rcodeBadVersion},
	} {
		s, _ := newServer()
		m := ask(t, s, asking(t, "example.org.", a, c.opt))
		if len(m.Additionals) != 1 {
			t.Errorf("%s: %v", c.what, m.Additionals)
			continue
		}
		h := m.Additionals[0].Header
		if h.ExtendedRCode(m.RCode) != c.want || h.Type != dnsmessage.TypeOPT || h.Class != sizeEDNS || h.DNSSECAllowed() ||
			h.TTL>>16&0xff != 0 || h.Name.String() != "." || h.Length != 0 || m.CheckingDisabled {
			t.Errorf("%s: %v in %v", c.what, h.GoString(), m.Header.GoString())
		}
		if c.want == dnsmessage.RCodeSuccess != (said(m) == first4) || len(m.Questions) != 1 {
			t.Errorf("%s: %s, %d questions", c.what, said(m), len(m.Questions))
		}
	}
	s, _ := newServer()
	if m := ask(t, s, asking(t, "example.org.", a)); len(m.Additionals) != 0 {
		t.Errorf("nobody asked for %v", m.Additionals)
	}
	if m := ask(t, s, asking(t, "evil.com.", a, options(1232, 0, 0))); m.RCode != dnsmessage.RCodeRefused || len(m.Additionals) != 1 {
		t.Errorf("refused with %v", m.Additionals)
	}
}

func TestFlagsOfTheQueryThatComeBack(t *testing.T) {
	s, _ := newServer()
	for bits := range 1 << 3 {
		m := ask(t, s, asking(t, "example.org.", a, func(m *dnsmessage.Message) {
			m.RecursionDesired, m.CheckingDisabled, m.AuthenticData = bits&1 != 0, bits&2 != 0, bits&4 != 0
			m.RCode = 5 // means nothing in a query
		}))
		if m.RecursionDesired != (bits&1 != 0) || m.CheckingDisabled != (bits&2 != 0) || m.AuthenticData || said(m) != first4 {
			t.Errorf("%03b: %v", bits, m.Header.GoString())
		}
	}
}

// No answer that there is needs more than 512 bytes, so this one is made up.
func TestAnswersThatAreTooLongAreCut(t *testing.T) {
	label := strings.Repeat("a", 61) + "."
	question := dnsmessage.Question{Name: dnsmessage.MustNewName(strings.Repeat(label, 4)), Type: ptr, Class: dnsmessage.ClassINET}
	other := strings.TrimSuffix(strings.Repeat(strings.ReplaceAll(label, "a", "b"), 4), ".")
	for _, c := range []struct {
		tcp, edns bool
		size      uint16
		cut       bool
	}{
		{false, false, 0, true}, {true, false, 0, false}, {false, true, 1232, false}, {false, true, 65535, false},
		{false, true, 100, true}, {false, true, 512, true}, {false, true, 536, true}, {false, true, 537, false}, {true, true, 512, false},
	} {
		q := query{header: dnsmessage.Header{ID: 7}, question: question, whole: true, edns: c.edns, size: c.size}
		reply := q.reply(answer{name: other}, c.tcp)
		var m dnsmessage.Message
		if err := m.Unpack(reply); err != nil || len(reply) > q.limit(c.tcp) {
			t.Fatalf("%+v: %d bytes, %v", c, len(reply), err)
		}
		if m.Truncated != c.cut || (len(m.Answers) == 0) != c.cut || len(m.Questions) != 1 || (len(m.Additionals) == 1) != c.edns {
			t.Errorf("%+v: %d bytes: %v", c, len(reply), m.Header.GoString())
		}
	}
}

func TestHowLongAnAnswerMayBe(t *testing.T) {
	for size, want := range map[uint16]int{0: 512, 511: 512, 513: 513, 1232: 1232, 1233: 1232, 65535: 1232} {
		q := query{edns: true, size: size}
		if got := q.limit(false); got != want || q.limit(true) != 65535 {
			t.Errorf("%d: %d, want %d", size, got, want)
		}
	}
	if got := new(query).limit(false); got != 512 {
		t.Errorf("without EDNS: %d", got)
	}
}

func TestWhatCannotBePackedIsAFailure(t *testing.T) {
	q := query{header: dnsmessage.Header{ID: 7}, whole: true} // a name of no length
	var m dnsmessage.Message
	if err := m.Unpack(q.reply(answer{}, false)); err != nil || m.ID != 7 || m.RCode != dnsmessage.RCodeServerFailure {
		t.Errorf("%v %v", m.GoString(), err)
	}
}

func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"example.org.", "EVIL.com.", "localhost.", "confine.", "16.0.18.198.in-addr.arpa.", first6Arpa, "."} {
		for _, qtype := range []dnsmessage.Type{a, aaaa, ptr, dnsmessage.TypeTXT, dnsmessage.TypeAXFR} {
			f.Add(asking(f, name, qtype), false)
			f.Add(asking(f, name, qtype, options(1232, 0, 0)), true)
		}
	}
	f.Add(message(header(), "\x01a\xc0\x0c", 0, 1, 0, 1), false)
	s, _ := newServer()
	f.Fuzz(func(t *testing.T, msg []byte, tcp bool) {
		reply := s.Answer(context.Background(), msg, tcp)
		if len(msg) < headerLen || msg[2]&0x80 != 0 {
			if reply != nil {
				t.Fatalf("%x: %x", msg, reply)
			}
			return
		}
		if err := consistent(s, msg, reply, tcp); err != nil {
			t.Errorf("%x: %x: %v", msg, reply, err)
		}
	})
}

// consistent is what holds of every answer.
func consistent(s *Server, msg, reply []byte, tcp bool) error {
	var m dnsmessage.Message
	if err := m.Unpack(reply); err != nil {
		return err
	}
	if m.ID != binary.BigEndian.Uint16(msg) || !m.Response || len(m.Answers) > 1 || len(m.Authorities) > 0 || len(reply) > sizeTCP ||
		!tcp && len(reply) > sizeEDNS {
		return fmt.Errorf("header %v, %d answers, %d bytes", m.Header.GoString(), len(m.Answers), len(reply))
	}
	if len(m.Questions) == 1 && (m.RCode == dnsmessage.RCodeSuccess || m.RCode == dnsmessage.RCodeRefused) {
		q, err := m.Questions[0].Name.String(), error(nil)
		if !bytes.Contains(msg, []byte(strings.Split(q, ".")[0])) {
			err = fmt.Errorf("another question, %q", q)
		}
		if err != nil {
			return err
		}
	}
	if len(m.Answers) == 0 {
		return nil
	}
	record, asked := m.Answers[0], m.Questions[0]
	name := strings.ToLower(strings.TrimSuffix(asked.Name.String(), "."))
	local := name == "confine" || name == "localhost" || strings.HasSuffix(name, ".localhost")
	if record.Header.Name != asked.Name || record.Header.Type != asked.Type {
		return fmt.Errorf("%v for %v", record.Header.GoString(), asked.GoString())
	}
	if asked.Type == ptr {
		if !strings.HasSuffix(name, ".arpa") {
			return fmt.Errorf("a PTR")
		}
		return nil
	}
	if !local && !allowed(name) {
		return fmt.Errorf("an address for %q", name)
	}
	pair, given := s.Pool.Given(name)
	if got := said(&m); !local && (!given || got != pair.V4.String() && got != pair.V6.String()) {
		return fmt.Errorf("%s, and the pair is %v", got, pair)
	}
	return nil
}

func FuzzNames(f *testing.F) {
	for _, name := range []string{"Example.org.", "a..b", "1.2.3.4", "0x7f", "\u212a.org", strings.Repeat("a.", 127), `\"`} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, wire string) {
		name, ok := network.CanonicalName(wire)
		if ok && (!isCanonical(name) || name != strings.ToLower(strings.TrimSuffix(wire, "."))) {
			t.Fatalf("%q: %q", wire, name)
		}
		for _, c := range printable(wire) {
			if c < '!' || c > '~' {
				t.Errorf("%q: %q is not plain", wire, printable(wire))
			}
		}
		if _, is := addressOf(name); is && !ok {
			t.Errorf("%q is an address's, and no name", name)
		}
	})
}
