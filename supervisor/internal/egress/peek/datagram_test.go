package peek

import (
	"slices"
	"strings"
	"testing"
)

// long is a packet of QUIC with a long header.
func long(first byte, version string, dst, src int, size int) []byte {
	b := append([]byte{first}, version...)
	b = append(b, byte(dst))
	b = append(b, make([]byte, dst)...)
	b = append(b, byte(src))
	b = append(b, make([]byte, src)...)
	return append(b, make([]byte, max(0, size-len(b)))...)
}

func TestQUIC(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []byte
		want bool
	}{
		{"version 1", long(0xc0, "\x00\x00\x00\x01", 8, 0, 1200), true},
		{"version 1, short of 1200", long(0xc0, "\x00\x00\x00\x01", 8, 0, 100), true},
		{"version 1, 0-RTT first", long(0xd0, "\x00\x00\x00\x01", 8, 8, 1200), true},
		{"version 1, fixed bit greased", long(0x80, "\x00\x00\x00\x01", 8, 8, 1200), true},
		{"version 2", long(0xd0, "\x6b\x33\x43\xcf", 8, 8, 1200), true},
		{"draft 29", long(0xc0, "\xff\x00\x00\x1d", 8, 8, 1200), true},
		{"draft of version 2", long(0xc0, "\x70\x9a\x50\xc4", 8, 8, 1200), true},
		{"greased version", long(0xc0, "\x1a\x2a\x3a\x4a", 8, 8, 1200), true},
		{"Q046", long(0xc3, "Q046", 8, 0, 1200), true},
		{"T051", long(0xc3, "T051", 8, 0, 1200), true},
		{"mvfst", long(0xc0, "\xfa\xce\xb0\x02", 8, 0, 1200), true},
		{"unknown version", long(0xc0, "\x12\x34\x56\x78", 8, 8, 1200), true},
		{"Q043", append([]byte("\x0d\x01\x02\x03\x04\x05\x06\x07\x08Q043"), 1, 2, 3), true},

		{"unknown version, short", long(0xc0, "\x12\x34\x56\x78", 8, 8, 500), false},
		{"unknown version, long id", long(0xc0, "\x12\x34\x56\x78", 40, 8, 1200), false},
		{"short header", append([]byte{0x40}, make([]byte, 1200)...), false},
		{"id cut off", []byte("\xc0\x00\x00\x00\x01\x08\x01\x02"), false},
		{"empty", nil, false},
		{"DNS", []byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"), false},
		{"NTP", append([]byte{0xe3, 0, 6, 0xec}, make([]byte, 44)...), false},
		{"STUN", []byte("\x00\x01\x00\x00\x21\x12\xa4\x42aaaabbbbcccc"), false},
		{"RTP", []byte("\x80\x00\x10\x20\x30\x40\x50\x60\x00\x00\x00\x00"), false},
		{"DTLS", datagram(message(sni("\x00a.b")), 0), false},
		{"text", []byte("hello, world, hello, world"), false},
	} {
		if got := QUIC(c.in); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// datagram makes a DTLS record of a message of TLS, all of it and as one fragment.
func datagram(m []byte, epoch byte) []byte {
	body := m[messageHeader:]
	if m[0] == messageHello && len(body) > 34 {
		body = slices.Concat([]byte{0xfe, 0xfd}, body[2:35], []byte{0}, body[35:]) // with an empty cookie
	}
	n := []byte{0, byte(len(body) >> 8), byte(len(body))}
	f := slices.Concat([]byte{m[0]}, n, []byte{0, 0, 0, 0, 0}, n, body)
	return slices.Concat([]byte{recordHandshake, 0xfe, 0xff, 0, epoch, 0, 0, 0, 0, 0, 0, byte(len(f) >> 8), byte(len(f))}, f)
}

func TestDTLSServerName(t *testing.T) {
	good := datagram(message(sni("\x00A.b")), 0)
	alert := []byte{21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 90}
	changed := func(at int, b byte) []byte {
		c := slices.Clone(good)
		c[at] = b
		return c
	}
	for _, c := range []struct {
		name   string
		in     []byte
		want   string
		hello  bool
		reason Reason
	}{
		{"good", good, "a.b", true, ""},
		{"no name", datagram(message(nil), 0), "", true, NoServerName},
		{"two names", datagram(message(sni("\x00a.b", "\x00c.d")), 0), "", true, TwoServerNames},
		{"a piece", changed(datagramHeader+11, 9), "", true, Fragmented},
		{"a later piece", changed(datagramHeader+8, 9), "", true, Fragmented},
		{"behind an alert", slices.Concat(alert, good), "", true, NotHello},
		{"before another", slices.Concat(good, good), "", true, NotHello},
		{"another message", datagram([]byte{0, 0, 0, 0}, 0), "", false, ""},
		{"cut off", good[:len(good)-1], "", true, NotHello},
		{"cut off in the header", good[:datagramHeader+3], "", true, NotHello},
		{"of TLS", changed(datagramHeader+fragmentHeader, 3), "", true, Malformed},
		{"alert", alert, "", false, ""},
		{"encrypted", datagram(message(sni("\x00a.b")), 1), "", false, ""},
		{"a key", datagram([]byte{16, 0, 0, 1, 1}, 0), "", false, ""},
		{"DNS", []byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"), "", false, ""},
		{"empty", nil, "", false, ""},
	} {
		name, hello, err := DTLSServerName(c.in)
		if name != c.want || hello != c.hello || reason(err) != c.reason {
			t.Errorf("%s: %q, %v, %v; want %q, %v, %q", c.name, name, hello, err, c.want, c.hello, c.reason)
		}
	}
	// In one record with a message behind.
	behind := slices.Concat(good, make([]byte, fragmentHeader))
	behind[11], behind[12] = byte((len(behind)-datagramHeader)>>8), byte(len(behind)-datagramHeader)
	if _, hello, err := DTLSServerName(behind); !hello || reason(err) != NotHello {
		t.Errorf("before another message: %v, %v", hello, err)
	}
	// In one record with a message in front, which is for servers to pass over.
	two := slices.Concat(good[:datagramHeader], make([]byte, fragmentHeader), good[datagramHeader:])
	two[11], two[12] = byte((len(two)-datagramHeader)>>8), byte(len(two)-datagramHeader)
	if _, hello, err := DTLSServerName(two); !hello || reason(err) != NotHello {
		t.Errorf("behind another message: %v, %v", hello, err)
	}
}

func FuzzDatagram(f *testing.F) {
	f.Add(datagram(message(sni("\x00a.b")), 0))
	f.Add(long(0xc0, "\x00\x00\x00\x01", 8, 0, 30))
	f.Fuzz(func(t *testing.T, b []byte) {
		QUIC(b)
		name, hello, err := DTLSServerName(b)
		if (name != "") != (hello && err == nil) {
			t.Errorf("%q, %v, %v", name, hello, err)
		}
		if name != "" && !strings.Contains(strings.ToLower(string(b)), name) {
			t.Errorf("%q isn't in it", name)
		}
	})
}
