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
