package names

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	headerLen = 12
	// maxRecords is how many records a query may carry. An OPT, a signature and
	// the SOA of an IXFR are all that there is a use for.
	maxRecords = 16

	sizePlain = 512  // RFC 1035, without EDNS
	sizeEDNS  = 1232 // what goes through everywhere in one piece: https://www.dnsflagday.net/2020/
	sizeTCP   = 65535

	rcodeBadVersion dnsmessage.RCode = 16 // RFC 6891: four bits of it are in the header, the rest in the OPT
)

// ttl is how long a client may keep an answer. In the run the answer stays true; it
// is short for what outlives the run with it, such as a cache in a file that is kept, and
// long enough for the connections that one download makes.
const ttl = 60

// query is what was asked, as far as it matters here. Cookies, DO and whatever else a client
// says about itself change nothing.
type query struct {
	header   dnsmessage.Header
	question dnsmessage.Question
	whole    bool // question was read
	edns     bool
	version  uint8
	size     uint16 // of a datagram that the client takes
}

// parse reads a message. Where ok is false it gets no answer at all: it isn't a query, or
// too short to tell. Where the code isn't success, that is the answer.
func parse(msg []byte) (q query, code dnsmessage.RCode, ok bool) {
	var p dnsmessage.Parser
	var err error
	if q.header, err = p.Start(msg); err != nil || q.header.Response {
		return q, 0, false
	}
	if q.header.OpCode != 0 {
		return q, dnsmessage.RCodeNotImplemented, true
	}
	// One question, as RFC 9619 has it: with more, it couldn't be said which the code is for.
	if q.header.Truncated || count(msg, 0) != 1 || count(msg, 1)+count(msg, 2)+count(msg, 3) > maxRecords {
		return q, dnsmessage.RCodeFormatError, true
	}
	if q.question, err = p.Question(); err != nil || !plain(msg) || q.question.Type == dnsmessage.TypeOPT {
		return q, dnsmessage.RCodeFormatError, true
	}
	q.whole = true
	if p.SkipAllQuestions() != nil || p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil || !q.options(&p) {
		return q, dnsmessage.RCodeFormatError, true
	}
	if q.version != 0 {
		return q, rcodeBadVersion, true
	}
	return q, dnsmessage.RCodeSuccess, true
}

// count is the header's number of questions, answers, authorities or additionals.
func count(msg []byte, section int) int {
	return int(binary.BigEndian.Uint16(msg[4+2*section:]))
}

// plain tells whether the question's name stands there in full. Nothing comes before it
// that a pointer could honestly point to. The name was read before.
func plain(msg []byte) bool {
	for at := headerLen; at < len(msg); at += 1 + int(msg[at]) {
		if msg[at] == 0 {
			return true
		}
		if msg[at] >= 0xc0 {
			return false
		}
	}
	return false
}

// options reads the additional section, of which only the OPT counts. There is at most one.
func (q *query) options(p *dnsmessage.Parser) bool {
	for {
		h, err := p.AdditionalHeader()
		if err == dnsmessage.ErrSectionDone {
			return true
		}
		if err != nil {
			return false
		}
		if h.Type != dnsmessage.TypeOPT {
			if p.SkipAdditional() != nil {
				return false
			}
			continue
		}
		if _, err := p.OPTResource(); err != nil || q.edns || h.Name.String() != "." {
			return false
		}
		q.edns, q.size, q.version = true, uint16(h.Class), uint8(h.TTL>>16)
	}
}

// limit is how long an answer may be.
func (q *query) limit(tcp bool) int {
	switch {
	case tcp:
		return sizeTCP
	case q.edns:
		return min(max(int(q.size), sizePlain), sizeEDNS)
	}
	return sizePlain
}

// answer is what is said: a code, and at most one record.
type answer struct {
	code    dnsmessage.RCode
	address netip.Addr // of an A or AAAA
	name    string     // of a PTR
}

// reply is the answer as a message. The question stands in it as it was asked, in the same
// upper and lower case, by which clients tell forged answers (draft-vixie-dnsext-dns0x20).
func (q *query) reply(a answer, tcp bool) []byte {
	msg, err := q.build(a, false)
	if err == nil && len(msg) > q.limit(tcp) {
		msg, err = q.build(answer{code: a.code}, true)
	}
	if err != nil {
		// Nothing that was parsed is known to do this. No answer would make the client wait.
		bare := query{header: q.header}
		msg, _ = bare.build(answer{code: dnsmessage.RCodeServerFailure}, false)
	}
	return msg
}

func (q *query) build(a answer, truncated bool) ([]byte, error) {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{
		ID:               q.header.ID,
		Response:         true,
		OpCode:           q.header.OpCode,
		Truncated:        truncated,
		RecursionDesired: q.header.RecursionDesired,
		// Some clients take an empty answer of a server that doesn't recurse for a referral.
		RecursionAvailable: true,
		CheckingDisabled:   q.header.CheckingDisabled,
		RCode:              a.code & 0xf, // the library would set a flag by the fifth bit
	})
	b.EnableCompression()
	if !q.whole {
		return b.Finish()
	}
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(q.question); err != nil {
		return nil, err
	}
	if err := q.addRecord(&b, a); err != nil {
		return nil, err
	}
	if q.edns {
		if err := addOptions(&b, a.code); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

func (q *query) addRecord(b *dnsmessage.Builder, a answer) error {
	if err := b.StartAnswers(); err != nil {
		return err
	}
	h := dnsmessage.ResourceHeader{Name: q.question.Name, Class: dnsmessage.ClassINET, TTL: ttl}
	switch {
	case a.address.Is4():
		return b.AResource(h, dnsmessage.AResource{A: a.address.As4()})
	case a.address.Is6():
		return b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: a.address.As16()})
	case a.name != "":
		name, err := dnsmessage.NewName(a.name + ".")
		if err != nil {
			return err
		}
		return b.PTRResource(h, dnsmessage.PTRResource{PTR: name})
	}
	return nil
}

func addOptions(b *dnsmessage.Builder, code dnsmessage.RCode) error {
	if err := b.StartAdditionals(); err != nil {
		return err
	}
	var h dnsmessage.ResourceHeader
	if err := h.SetEDNS0(sizeEDNS, code, false); err != nil {
		return err
	}
	return b.OPTResource(h, dnsmessage.OPTResource{})
}
