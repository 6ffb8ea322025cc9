package peek

// MaxHello is how long a hello may be, with the headers of its records. Those of
// today have two kilobytes, with post-quantum keys.
const MaxHello = 16 << 10

const (
	recordHeader  = 5
	messageHeader = 4
	maxRecord     = 16 << 10
)

// ServerName is the name that the hello at the front of b asks for, canonical: lower case, no dot at the end,
// and how long that is with the headers of its records; more: it isn't over yet. It may be spread over
// records. What follows it is not read. The answer for some bytes is the answer for all that begin with them.
func ServerName(b []byte) (name string, size int, more bool, err error) {
	var message []byte
	need := messageHeader // of the message, as far as is known
	for at := 0; ; {
		if more, err = checkRecord(b[at:], at); more || err != nil {
			return "", 0, more, err
		}
		at += recordHeader
		length := int(b[at-2])<<8 | int(b[at-1])
		had := len(message)
		message = append(message, b[at:min(at+length, len(b))]...)
		if had == 0 && len(message) > 0 && message[0] != messageHello {
			return "", 0, false, NotHello
		}
		if need == messageHeader && len(message) >= messageHeader {
			need += int(message[1])<<16 | int(message[2])<<8 | int(message[3])
			if need > MaxHello {
				return "", 0, false, TooLong
			}
		}
		// Known as soon as both lengths are, and checked before anything behind.
		if len(message) >= messageHeader && had+length > need {
			return "", 0, false, NotHello
		}
		if len(message) == need {
			name, err = parseHello(message[messageHeader:], false)
			return name, at + length, false, err
		}
		if len(message) < had+length {
			return "", 0, true, nil
		}
		at += length
	}
}

// checkRecord looks at the header of a record, at a place in the stream.
func checkRecord(b []byte, at int) (more bool, err error) {
	for i, c := range b[:min(len(b), 2)] {
		if c != [...]byte{recordHandshake, 3}[i] {
			return false, NotHello
		}
	}
	if len(b) < recordHeader {
		return true, nil
	}
	switch size := int(b[3])<<8 | int(b[4]); {
	case size == 0 || size > maxRecord:
		return false, Malformed
	case at+recordHeader+size > MaxHello:
		return false, TooLong
	}
	return false, nil
}

// The types of records and messages, and the extension that matters.
const (
	recordCCS       = 20
	recordAlert     = 21
	recordHandshake = 22
	recordData      = 23
	recordHeartbeat = 24

	messageHello       = 1
	messageServerHello = 2

	extServerName = 0
)

// parseHello reads the server name in the body of a ClientHello, behind the header of the message. DTLS
// has a cookie in it.
func parseHello(body []byte, datagram bool) (name string, err error) {
	c := cursor{body, true}
	major := c.number(1)
	c.take(1 + 32) // minor version, random
	session := c.vector(1)
	if datagram {
		c.vector(1)
	}
	suites := c.vector(2)
	compressions := c.vector(1)
	switch {
	case !c.ok, len(session.b) > 32, len(suites.b) == 0, len(suites.b)%2 != 0, len(compressions.b) == 0:
		return "", Malformed
	case !datagram && major != 3, datagram && major != 0xfe:
		return "", Malformed
	case len(c.b) == 0:
		return "", NoServerName
	}
	extensions := c.vector(2)
	if !c.done() {
		return "", Malformed
	}
	return parseExtensions(extensions)
}

func parseExtensions(c cursor) (name string, err error) {
	var seen [1 << 16 / 8]byte
	found := false
	for len(c.b) > 0 {
		typ := c.number(2)
		data := c.vector(2)
		if !c.ok {
			return "", Malformed
		}
		if seen[typ/8]&(1<<(typ%8)) != 0 {
			if typ == extServerName {
				return "", TwoServerNames
			}
			return "", Malformed
		}
		seen[typ/8] |= 1 << (typ % 8)
		if typ == extServerName {
			found = true
			if name, err = parseServerName(data); err != nil {
				return "", err
			}
		}
	}
	if !found {
		return "", NoServerName
	}
	return name, nil
}

// parseServerName reads the extension of RFC 6066, section 3, of which one name is allowed.
func parseServerName(c cursor) (string, error) {
	list := c.vector(2)
	if !c.done() {
		return "", Malformed
	}
	if len(list.b) == 0 {
		return "", NoServerName
	}
	typ := list.number(1)
	name := list.vector(2)
	switch {
	case typ != 0:
		return "", BadName
	case !list.ok:
		return "", Malformed
	case len(list.b) != 0:
		return "", TwoServerNames
	}
	return hostName(name.b)
}

// retryRandom is the random of a ServerHello that is a HelloRetryRequest (RFC 8446, section 4.1.3).
const retryRandom = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91" +
	"\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"

// ServerHello is what a server answers to a client's hello.
type ServerHello int

// The answers.
const (
	Unknown    ServerHello = iota // not there yet
	FinalHello                    // from here on it takes no other hello that could be read
	RetryHello                    // it asks for a second one
	NoHello                       // something else
)

// ServersHello reads what a server says from the beginning of a connection. Alerts that are warnings
// may come before its hello.
func ServersHello(b []byte) ServerHello {
	const need = messageHeader + 2 + len(retryRandom)
	var message []byte
	for at := 0; at < MaxHello; {
		typ, size, more, err := record(b[min(at, len(b)):])
		switch {
		case err != nil:
			return NoHello
		case more:
			return Unknown
		case typ == recordHandshake:
			message = append(message, b[at+recordHeader:min(at+size, len(b))]...)
		case typ != recordAlert || len(message) > 0:
			return NoHello
		}
		switch {
		case len(message) > 0 && message[0] != messageServerHello,
			len(message) >= messageHeader && int(message[1])<<16|int(message[2])<<8|int(message[3]) < need-messageHeader:
			return NoHello
		case len(message) >= need && string(message[need-len(retryRandom):need]) == retryRandom:
			return RetryHello
		case len(message) >= need:
			return FinalHello
		}
		at += size
	}
	return NoHello
}

// Between is how much at the front of b is records that may stand between a client's two hellos
// or be sent before the server has answered the first: early data, and the change of cipher that old
// proxies want to see. Those of the handshake may not. more: a record isn't over yet.
func Between(b []byte) (n int, more bool, err error) {
	for n < len(b) {
		typ, size, more, err := record(b[n:])
		switch {
		case err != nil || more || typ == recordHandshake:
			return n, more, err
		case n+size > len(b):
			return n, true, nil
		}
		n += size
	}
	return n, false, nil
}

// record reads the header of any record: its type, and its size with the header.
func record(b []byte) (typ byte, size int, more bool, err error) {
	const expansion = 2 << 10 // by encryption, RFC 5246, section 6.2.3
	if len(b) > 0 && (b[0] < recordCCS || b[0] > recordHeartbeat) || len(b) > 1 && b[1] != 3 {
		return 0, 0, false, NotHello
	}
	if len(b) < recordHeader {
		return 0, 0, true, nil
	}
	size = int(b[3])<<8 | int(b[4])
	if size > maxRecord+expansion {
		return 0, 0, false, Malformed
	}
	return b[0], recordHeader + size, false, nil
}

// cursor reads a message of TLS from its front. Once something is missing, ok stays false.
type cursor struct {
	b  []byte
	ok bool
}

// take is the next n bytes.
func (c *cursor) take(n int) []byte {
	if !c.ok || n > len(c.b) {
		c.ok = false
		return nil
	}
	taken := c.b[:n:n]
	c.b = c.b[n:]
	return taken
}

// number is the next n bytes as one.
func (c *cursor) number(n int) (v int) {
	for _, d := range c.take(n) {
		v = v<<8 | int(d)
	}
	return v
}

// vector is what follows behind its length of n bytes.
func (c *cursor) vector(n int) cursor {
	b := c.take(c.number(n))
	return cursor{b, c.ok}
}

// done says whether everything was there, and nothing is left.
func (c *cursor) done() bool { return c.ok && len(c.b) == 0 }
