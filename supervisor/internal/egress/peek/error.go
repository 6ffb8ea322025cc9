package peek

import (
	"net/netip"
	"strings"

	"github.com/confine-run/confine/internal/network"
)

// Reason is the error of bytes that are not let through. The set is closed.
type Reason string

func (r Reason) Error() string { return string(r) }

// The reasons. Those of a hello first, then those of requests.
const (
	NotHello       Reason = "not_hello"        // something else than one ClientHello comes first
	Malformed      Reason = "malformed"        // lengths that don't fit, or what has to be there once is there twice
	TooLong        Reason = "too_long"         // more than is kept while it is parsed
	BadServerHello Reason = "bad_server_hello" // of a server that a client goes on with as if it were one of TLS
	Fragmented     Reason = "fragmented"       // a DTLS hello in pieces
	NoServerName   Reason = "no_server_name"   // the extension is missing
	TwoServerNames Reason = "two_names"        // or more
	EmptyName      Reason = "empty_name"       //
	BadName        Reason = "bad_name"         // no host name
	AddressName    Reason = "address_name"     // an address where a name belongs, or what some resolver takes for one
	TrailingDot    Reason = "trailing_dot"     // RFC 6066, section 3: without one
	BadRequestLine Reason = "bad_request"      // not METHOD SP TARGET SP HTTP/1.x
	BadVersion     Reason = "bad_version"      // neither HTTP/1.1 nor HTTP/1.0
	BadTarget      Reason = "bad_target"       //
	BadLine        Reason = "bad_line"         // an end of line that isn't CR LF, or a control character
	BadField       Reason = "bad_field"        // no field line as in RFC 9112, or one that a proxy may take for another
	NoHost         Reason = "no_host"          //
	TwoHosts       Reason = "two_hosts"        // or more
	BadHost        Reason = "bad_host"         //
	HostMismatch   Reason = "host_mismatch"    // the target names another
	BadLength      Reason = "bad_length"       // a Content-Length that isn't one plain number
	BadEncoding    Reason = "bad_encoding"     // a Transfer-Encoding that isn't exactly "chunked"
	BadChunk       Reason = "bad_chunk"        //
	BadExpect      Reason = "bad_expect"       // an expectation that isn't exactly 100-continue
	Tunnel         Reason = "tunnel"           // CONNECT
	BadUpgrade     Reason = "bad_upgrade"      // one that can't be followed
	Unfinished     Reason = "unfinished"       // the client's end in the middle of it
	BadStatus      Reason = "bad_status_line"  // of the server's
)

// hostName makes a name canonical, as package network compares names. It has no dot at its end.
func hostName(b []byte) (string, error) {
	name := string(b)
	_, notAddress := netip.ParseAddr(name)
	// 127.1, 0x7f.1 and the like: addresses for some resolvers.
	last := strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	switch {
	case name == "":
		return "", EmptyName
	case last == "":
		return "", TrailingDot
	case notAddress == nil, strings.Trim(last, "0123456789") == "", strings.HasPrefix(last, "0x"):
		return "", AddressName
	}
	name, ok := network.CanonicalName(name)
	if !ok {
		return "", BadName
	}
	return name, nil
}
