package peek

// MaxHello is how long a hello may be, with the headers of its records. Those of
// today have two kilobytes, with post-quantum keys.
const MaxHello = 16 << 10

const (
	recordHeader  = 5
	messageHeader = 4
	maxRecord     = 16 << 10
)

// ServerName is the name that the hello at the front of b asks for, and how long that is with the
// headers of its records; more: it isn't over yet. What follows it is not looked at.
func ServerName(b []byte) (name string, size int, more bool, err error) {
	h, more, err := ClientHello(b)
	return h.Name, h.size, more, err
}

// ClientHello reads the hello at the front of b; more: it isn't over yet. It may be spread over
// records. The answer for some bytes is the answer for all that begin with them.
func ClientHello(b []byte) (h Hello, more bool, err error) {
	var message []byte
	need := messageHeader // of the message, as far as is known
	for at := 0; ; {
		if more, err = checkRecord(b[at:], at); more || err != nil {
			return h, more, err
		}
		at += recordHeader
		size := int(b[at-2])<<8 | int(b[at-1])
		had := len(message)
		message = append(message, b[at:min(at+size, len(b))]...)
		if had == 0 && len(message) > 0 && message[0] != messageHello {
			return h, false, refuse(NotHello, "the first message of the TLS handshake is no hello")
		}
		if need == messageHeader && len(message) >= messageHeader {
			need += int(message[1])<<16 | int(message[2])<<8 | int(message[3])
			if need > MaxHello {
				return h, false, refuse(TooLong, "the TLS hello is longer than 16 KiB")
			}
		}
		// Known as soon as both lengths are, and checked before anything behind.
		if len(message) >= messageHeader && had+size > need {
			return h, false, refuse(NotHello, "the record of the TLS hello holds more than the hello")
		}
		if len(message) == need {
			h, err = parseHello(message[messageHeader:], false)
			h.size = at + size
			return h, false, err
		}
		if len(message) < had+size {
			return h, true, nil
		}
		at += size
	}
}

// checkRecord looks at the header of a record, at a place in the stream.
func checkRecord(b []byte, at int) (more bool, err error) {
	for i, c := range b[:min(len(b), 2)] {
		if c != [...]byte{recordHandshake, 3}[i] {
			return false, refuse(NotHello, "a TLS record that is none of the handshake comes before the end of the hello")
		}
	}
	if len(b) < recordHeader {
		return true, nil
	}
	switch size := int(b[3])<<8 | int(b[4]); {
	case size == 0 || size > maxRecord:
		return false, refuse(Malformed, "a record of the TLS hello has no length that a record can have")
	case at+recordHeader+size > MaxHello:
		return false, refuse(TooLong, "the TLS hello is longer than 16 KiB")
	}
	return false, nil
}
