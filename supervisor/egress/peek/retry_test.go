package peek

import (
	"bytes"
	"slices"
	"testing"
)

// serverHello is the message, with a random.
func serverHello(random string) []byte {
	body := slices.Concat([]byte{3, 3}, []byte(random), []byte{0, 0x13, 1, 0, 0, 0})
	return append([]byte{messageServerHello, 0, 0, byte(len(body))}, body...)
}

func TestServersHello(t *testing.T) {
	retry, final := serverHello(retryRandom), serverHello("0123456789abcdef0123456789abcdef")
	alert := []byte{recordAlert, 3, 3, 0, 2, 1, 112}
	for name, c := range map[string]struct {
		in   []byte
		want ServerHello
	}{
		"a retry":                      {records(retry, 999), RetryHello},
		"a retry over records":         {records(retry, 1), RetryHello},
		"with more in the record":      {records(slices.Concat(retry, final), 999), RetryHello},
		"final":                        {records(final, 999), FinalHello},
		"final over records":           {records(final, 7), FinalHello},
		"one byte off":                 {records(bytes.Replace(retry, []byte{0x9c}, []byte{0x9d}, 1), 999), FinalHello},
		"final, then the random":       {records(slices.Concat(final, retry), 999), FinalHello},
		"behind a warning":             {slices.Concat(alert, records(retry, 999)), RetryHello},
		"an alert in the middle of it": {slices.Concat(records(retry[:9], 999), alert, records(retry[9:], 999)), NoHello},
		"a client's":                   {records(message(sni("\x00a.b")), 999), NoHello},
		"the random in another":        {records(append([]byte{11}, retry[1:]...), 999), NoHello},
		"too short for a random":       {records(append([]byte{2, 0, 0, 33, 3, 3}, retryRandom...), 999), NoHello},
		"data":                         {[]byte{recordData, 3, 3, 0, 1, 0}, NoHello},
		"none of TLS":                  {[]byte("HTTP/1.1 400 Bad Request\r\n"), NoHello},
		"alerts without end":           {bytes.Repeat(alert, MaxHello/len(alert)+1), NoHello},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ServersHello(c.in); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
			decided := Unknown
			for _, i := range splits(len(c.in)) {
				got := ServersHello(c.in[:i])
				if decided != Unknown && got != decided {
					t.Fatalf("%d bytes: %v, and %v for less", i, got, decided)
				}
				decided = got
			}
		})
	}
}

func TestBetweenHellos(t *testing.T) {
	ccs, data := []byte{recordCCS, 3, 3, 0, 1, 1}, append([]byte{recordData, 3, 3, 0x40, 0x11}, make([]byte, 0x4011)...)
	second := records(message(sni("\x00a.b")), 999)
	for name, c := range map[string]struct {
		in     []byte
		n      int
		more   bool
		reason Reason
	}{
		"nothing":             {nil, 0, false, ""},
		"a change of cipher":  {ccs, 6, false, ""},
		"early data":          {slices.Concat(data, ccs, second), len(data) + 6, false, ""},
		"half a record":       {slices.Concat(ccs, data[:9]), 6, true, ""},
		"half a header":       {slices.Concat(ccs, data[:3]), 6, true, ""},
		"a hello":             {second, 0, false, ""},
		"none of TLS":         {slices.Concat(ccs, []byte("GET / HTTP/1.1\r\n")), 6, false, NotHello},
		"another version":     {[]byte{recordCCS, 2}, 0, false, NotHello},
		"longer than can be":  {[]byte{recordData, 3, 3, 0x48, 1}, 0, false, Malformed},
		"unknown to TLS, too": {[]byte{recordHeartbeat + 1, 3, 3, 0, 1}, 0, false, NotHello},
	} {
		t.Run(name, func(t *testing.T) {
			if n, more, err := Between(c.in); n != c.n || more != c.more || reason(err) != c.reason {
				t.Errorf("%d, %v, %v; want %d, %v, %q", n, more, err, c.n, c.more, c.reason)
			}
		})
	}
}

// FuzzServersHello: what is decided stays so, however much more comes.
func FuzzServersHello(f *testing.F) {
	f.Add(records(serverHello(retryRandom), 5))
	f.Add(records(serverHello("0123456789abcdef0123456789abcdef"), 999))
	f.Fuzz(func(t *testing.T, b []byte) {
		decided := Unknown
		for i := range min(len(b), 2<<10) {
			got := ServersHello(b[:i])
			if decided != Unknown && got != decided {
				t.Fatalf("%d bytes: %v, and %v for less", i, got, decided)
			}
			decided = got
			if n, _, err := Between(b[:i]); n > i || err != nil && reason(err) == "" {
				t.Fatalf("%d of %d bytes, %v", n, i, err)
			}
		}
	})
}
