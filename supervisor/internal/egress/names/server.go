package names

import (
	"context"
	"errors"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/confine-run/confine/internal/network"
)

// typeIXFR is a type that the library has no name for.
const typeIXFR dnsmessage.Type = 251

// Why is a stable identifier of what a query was refused for.
type Why string

const (
	WhyNotAllowed   Why = "not_allowed"    // the rules don't allow the name; whoever has them knows if one denies it
	WhyBadName      Why = "bad_name"       // no rule could: it is no name of a host
	WhyTooManyNames Why = "too_many_names" // allowed, and all addresses are given
	WhyClass        Why = "class"          // not of the Internet's class
	WhyTransfer     Why = "zone_transfer"  // AXFR, IXFR
)

// Server answers the queries of a run. It keeps nothing but what is in its pool, so
// any number of names that are refused cost no memory. It needs a pool; a function that is
// nil is the safe answer: nothing is allowed, whether a name exists is unknown, nobody is told.
type Server struct {
	Pool *Pool
	// Allowed is asked about every name but those that are local to the sandbox. The
	// name is canonical.
	Allowed func(name string) bool
	// Exists asks the caller's resolver about an allowed name: [ErrNotFound] is that it has no address, any
	// other error that this couldn't be found out.
	Exists func(ctx context.Context, name string) error
	// Refused is told of every query that is refused, and of every new name that finds the
	// pool full. The name is lower case, without a dot at its end, safe to print, up to four
	// times as long as a name can be. It is called as often as the target likes: whoever
	// keeps that bounds it.
	Refused func(name string, why Why)
}

var errNobodyAsked = errors.New("nobody can be asked")

// Answer is the answer to a message that came as a datagram, or over TCP without the
// length before it. It is nil where there is none to give. It can be called by many at a
// time, and takes as long as Exists does.
func (s *Server) Answer(ctx context.Context, msg []byte, tcp bool) []byte {
	q, code, ok := parse(msg)
	if !ok {
		return nil
	}
	a := answer{code: code}
	if code == dnsmessage.RCodeSuccess {
		a = s.decide(ctx, q.question)
	}
	return q.reply(a, tcp)
}

// decide is the whole policy of answers, in the order in which it holds.
func (s *Server) decide(ctx context.Context, asked dnsmessage.Question) answer {
	name, ok := network.CanonicalName(asked.Name.String())
	switch {
	case asked.Class != dnsmessage.ClassINET:
		return s.refuse(asked, WhyClass)
	case asked.Type == dnsmessage.TypeAXFR || asked.Type == typeIXFR:
		return s.refuse(asked, WhyTransfer)
	case !ok:
		return s.refuse(asked, WhyBadName)
	case under(name, "localhost"): // RFC 6761, whatever the rules are: it never leaves the sandbox
		return addressed(asked.Type, loopback())
	case name == Host:
		return addressed(asked.Type, HostAddresses())
	}
	if a, ok := s.reversed(name, asked.Type); ok {
		return a
	}
	if s.Allowed == nil || !s.Allowed(name) {
		return s.refuse(asked, WhyNotAllowed)
	}
	if asked.Type != dnsmessage.TypeA && asked.Type != dnsmessage.TypeAAAA {
		return answer{} // there is no such record, and nobody had to be asked
	}
	return s.resolve(ctx, name, asked)
}

// resolve answers for an allowed name.
func (s *Server) resolve(ctx context.Context, name string, asked dnsmessage.Question) answer {
	_, given := s.Pool.Given(name)
	if !given && s.Pool.Len() >= MaxNames {
		return s.full(asked) // before anything leaves the host
	}
	err := errNobodyAsked
	if s.Exists != nil {
		err = s.Exists(ctx, name)
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return answer{code: dnsmessage.RCodeNameError}
	case err != nil:
		return answer{code: dnsmessage.RCodeServerFailure}
	}
	pair, err := s.Pool.Give(name)
	if err != nil {
		return s.full(asked)
	}
	return addressed(asked.Type, pair)
}

// reversed answers for a name that stands for a whole address. It does so for every
// address: those of the real world have no name in here, since a reverse lookup would
// tell whoever serves that zone that the target is interested. It is NXDOMAIN and not REFUSED, and nobody
// is told, because programs look up addresses only to print them: they go on with
// the number at once, where a refusal has them try again.
func (s *Server) reversed(name string, t dnsmessage.Type) (answer, bool) {
	addr, ok := addressOf(name)
	if !ok {
		return answer{}, false
	}
	local, host := loopback(), HostAddresses()
	points, ok := s.Pool.Name(addr)
	switch addr {
	case local.V4, local.V6:
		points, ok = "localhost", true
	case host.V4, host.V6:
		points, ok = Host, true
	}
	switch {
	case !ok:
		return answer{code: dnsmessage.RCodeNameError}, true
	case t != dnsmessage.TypePTR:
		return answer{}, true
	}
	return answer{name: points}, true
}

// addressed is the one address of a pair that was asked for, or nothing for other types.
func addressed(t dnsmessage.Type, pair Pair) answer {
	switch t {
	case dnsmessage.TypeA:
		return answer{address: pair.V4}
	case dnsmessage.TypeAAAA:
		return answer{address: pair.V6}
	}
	return answer{}
}

func (s *Server) refuse(asked dnsmessage.Question, why Why) answer {
	s.tell(asked, why)
	return answer{code: dnsmessage.RCodeRefused}
}

func (s *Server) full(asked dnsmessage.Question) answer {
	s.tell(asked, WhyTooManyNames)
	return answer{code: dnsmessage.RCodeServerFailure}
}

func (s *Server) tell(asked dnsmessage.Question, why Why) {
	if s.Refused != nil {
		s.Refused(printable(asked.Name.String()), why)
	}
}
