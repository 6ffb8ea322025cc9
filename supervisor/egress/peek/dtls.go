package peek

// Lengths of the headers of DTLS: type, version, epoch, number, length; and type,
// length, number, offset and length of the fragment.
const (
	datagramHeader = 13
	fragmentHeader = 12
)

// DTLSServerName looks at one datagram of a client's. If there is a hello of DTLS in
// it (1.0 to 1.3), it has to have the right name; that goes for each, since a hello is
// said twice, the second time with a cookie. A hello in several pieces is refused, and so is one
// that isn't all that is in its datagram.
func DTLSServerName(datagram []byte) (name string, hello bool, err error) {
	if !holdsHello(datagram) {
		return "", false, nil
	}
	record := cursor{datagram, true}
	record.take(datagramHeader - 2)
	message := record.vector(2)
	if !record.done() || message.number(1) != messageHello {
		return "", true, refuse(NotHello, "a datagram holds more or less than one DTLS hello")
	}
	length := message.number(3)
	message.take(2)
	offset, fragment := message.number(3), message.number(3)
	switch {
	case !message.ok:
		return "", true, refuse(Malformed, "the DTLS hello is malformed")
	case offset != 0 || fragment != length:
		return "", true, refuse(Fragmented, "a DTLS hello is in pieces")
	case len(message.b) != length:
		return "", true, refuse(NotHello, "a datagram holds more or less than one DTLS hello")
	}
	h, err := parseHello(message.b, true)
	return h.Name, true, err
}

// holdsHello says whether there is a hello, or a piece of one, in any record of a
// datagram. What is encrypted (epoch 1 and later) is none that a name can be read of.
func holdsHello(datagram []byte) bool {
	for d := (cursor{datagram, true}); len(d.b) > 0; {
		typ, major := d.number(1), d.number(1)
		d.take(1)
		epoch := d.number(2)
		d.take(6)
		size := d.number(2)
		if !d.ok || typ < recordCCS || typ > 26 || major != 0xfe {
			return false // and none follows: a server drops the rest
		}
		size = min(size, len(d.b))
		record := cursor{d.take(size), true}
		if typ != recordHandshake || epoch != 0 {
			continue
		}
		for len(record.b) > 0 {
			if record.b[0] == messageHello {
				return true
			}
			record.take(fragmentHeader - 3)
			fragment := record.number(3)
			if record.take(fragment); !record.ok {
				break
			}
		}
	}
	return false
}
