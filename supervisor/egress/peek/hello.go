package peek

// Hello is what a ClientHello claims.
type Hello struct {
	Name string // canonical: lower case, no dot at the end
	// Encrypted: there may be another hello in it (ECH), for a name that can't be
	// seen. Or there isn't: browsers send the extension without meaning it.
	Encrypted bool
	size      int // in bytes of the stream
}

// The types of records and messages, and the extensions that matter.
const (
	recordCCS       = 20
	recordAlert     = 21
	recordHandshake = 22
	recordData      = 23
	recordHeartbeat = 24

	messageHello       = 1
	messageServerHello = 2

	extServerName      = 0
	extEncryptedHello  = 0xfe0d
	extEncryptedBefore = 0xffce // an earlier draft's
)

// parseHello reads the body of a ClientHello, behind the header of the message. DTLS has a cookie in it.
func parseHello(body []byte, datagram bool) (h Hello, err error) {
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
		return h, refuse(Malformed, "the TLS hello is malformed")
	case !datagram && major != 3, datagram && major != 0xfe:
		return h, refuse(Malformed, "the TLS hello has an unknown version")
	case len(c.b) == 0:
		return h, refuse(NoServerName, "the TLS hello has no server name")
	}
	extensions := c.vector(2)
	if !c.done() {
		return h, refuse(Malformed, "the TLS hello is malformed")
	}
	return parseExtensions(extensions)
}

func parseExtensions(c cursor) (h Hello, err error) {
	var seen [1 << 16 / 8]byte
	found := false
	for len(c.b) > 0 {
		typ := c.number(2)
		data := c.vector(2)
		if !c.ok {
			return Hello{}, refuse(Malformed, "an extension of the TLS hello is malformed")
		}
		if seen[typ/8]&(1<<(typ%8)) != 0 {
			if typ == extServerName {
				return Hello{}, refuse(TwoServerNames, "the TLS hello has two server names")
			}
			return Hello{}, refuse(Malformed, "an extension of the TLS hello is there twice")
		}
		seen[typ/8] |= 1 << (typ % 8)
		switch typ {
		case extServerName:
			found = true
			if h.Name, err = parseServerName(data); err != nil {
				return Hello{}, err
			}
		case extEncryptedHello, extEncryptedBefore:
			h.Encrypted = true
		}
	}
	if !found {
		return Hello{}, refuse(NoServerName, "the TLS hello has no server name")
	}
	return h, nil
}

// parseServerName reads the extension of RFC 6066, section 3, of which one name is allowed.
func parseServerName(c cursor) (string, error) {
	list := c.vector(2)
	if !c.done() {
		return "", refuse(Malformed, "the server name of the TLS hello is malformed")
	}
	if len(list.b) == 0 {
		return "", refuse(NoServerName, "the TLS hello has an empty list of server names")
	}
	typ := list.number(1)
	name := list.vector(2)
	switch {
	case typ != 0:
		return "", refuse(BadName, "the server name of the TLS hello is no host name")
	case !list.ok:
		return "", refuse(Malformed, "the server name of the TLS hello is malformed")
	case len(list.b) != 0:
		return "", refuse(TwoServerNames, "the TLS hello has two server names")
	}
	return hostName(name.b)
}
