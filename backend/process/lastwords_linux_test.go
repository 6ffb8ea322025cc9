package process

import (
	"slices"
	"testing"
)

func TestAReadOnlyNameIsTheLastOneBeforeTheWords(t *testing.T) {
	for line, want := range map[string][]string{
		"go build w: copying /tmp/go-build1/a.out: open app: read-only file system": nil,
		"go build w: copying a.out: open /usr/x: read-only file system":             {"/usr/x"},
		"touch: cannot touch '/usr/x': Read-only file system":                       {"/usr/x"},
		"OSError: [Errno 30] Read-only file system: '/usr/x'":                       {"/usr/x"},
		"/usr/x: other words": {"/usr/x"},
	} {
		if got := namesIn(lastClause(line), "/home/u", "/w"); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestPortsOfTheLoopbackAreFoundInWhatProgramsSay(t *testing.T) {
	for text, want := range map[string][]string{
		"dial tcp 127.0.0.1:5432: connect: connection refused":                  {"5432"},
		"dial tcp [::1]:80: connect: connection refused":                        {"80"},
		"failed to connect to localhost port 8080 after 0 ms":                   {"8080"},
		"connection to server at \"localhost\" (::1), port 5432 failed":         {"5432"},
		"http://localhost:80/ and 127.10.200.3, port: 81":                       {"80", "81"},
		"localhost:80a localhost:123456 localhost80 localhost-----80 localhost": nil,
		"127.0.0:80 127.0..1:80 1270.0.0.1:80 localhost:port":                   nil,
	} {
		if got := loopbackPorts(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
