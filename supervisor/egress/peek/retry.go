package peek

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
		return 0, 0, false, refuse(NotHello, "something else than a record of TLS comes")
	}
	if len(b) < recordHeader {
		return 0, 0, true, nil
	}
	size = int(b[3])<<8 | int(b[4])
	if size > maxRecord+expansion {
		return 0, 0, false, refuse(Malformed, "a record of TLS has no length that a record can have")
	}
	return b[0], recordHeader + size, false, nil
}
