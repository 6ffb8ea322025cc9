package peek

// minInitial is how long a datagram with a client's first packet of QUIC is at least (RFC 9000, section 14.1).
const minInitial = 1200

// QUIC says whether a datagram of a client's opens a connection of QUIC, as far as some server
// would take it for that. A flow to a name that has one in it is refused: the name in
// it isn't looked at. Packets of a connection that is open can't be told from anything else.
//
// Whatever has a long header counts, not Initial alone: what comes first in a datagram
// needn't be the packet that the server starts with.
func QUIC(datagram []byte) bool {
	if len(datagram) < 7 {
		return false
	}
	if gquic(datagram) {
		return true
	}
	if datagram[0]&0x80 == 0 {
		return false
	}
	c := cursor{datagram[1:], true}
	version := uint32(c.number(4))
	dst, src := c.vector(1), c.vector(1)
	if !c.ok {
		return false
	}
	switch {
	case version == 1, // RFC 9000
		version == 0x6b3343cf,       // RFC 9369, version 2
		version>>8 == 0xff0000,      // drafts
		version&^0xff == 0x709a5000, // drafts of version 2
		version>>8 == 0xfaceb0,      // mvfst
		version>>24 == 'Q' && version>>16&0xff == '0',
		version>>24 == 'T' && version>>16&0xff == '0':
		return true
	case version&0x0f0f0f0f == 0x0a0a0a0a:
		return true // asks for a negotiation
	}
	// A version that isn't known here, by what all have in common (RFC 8999).
	return len(datagram) >= minInitial && datagram[0]&0x40 != 0 && len(dst.b) >= 8 && len(dst.b) <= 20 && len(src.b) <= 20
}

// gquic is Google's before its version 46: flags with one for a version, the connection, the version.
func gquic(d []byte) bool {
	return len(d) >= 13 && d[0]&0x89 == 0x09 && (d[9] == 'Q' || d[9] == 'T') && d[10] == '0' && digit(d[11]) && digit(d[12])
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

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
		return "", true, NotHello
	}
	length := message.number(3)
	message.take(2)
	offset, fragment := message.number(3), message.number(3)
	switch {
	case !message.ok:
		return "", true, Malformed
	case offset != 0 || fragment != length:
		return "", true, Fragmented
	case len(message.b) != length:
		return "", true, NotHello
	}
	name, err = parseHello(message.b, true)
	return name, true, err
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
