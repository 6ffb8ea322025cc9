package files

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// identity is who a thread is.
type identity struct {
	pid, tid int // as seen inside
	comm     string
}

// maxKnown bounds how many threads are remembered.
const maxKnown = 4096

// identities remembers threads, by our number of them. A number that is given to
// another thread may be taken for the one before: it is for words.
type identities struct {
	mu    sync.Mutex
	known map[int]identity
}

func (s *identities) of(thread int) identity {
	s.mu.Lock()
	who, ok := s.known[thread]
	s.mu.Unlock()
	if ok {
		return who
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(thread) + "/status")
	if err != nil {
		return identity{}
	}
	who = parse(string(status))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxKnown {
		s.known = make(map[int]identity)
	}
	s.known[thread] = who
	return who
}

// forget is for one that becomes another by execve.
func (s *identities) forget(thread int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, thread)
}

// parse reads the status of a thread.
func parse(status string) (who identity) {
	last := func(value string) int {
		fields := strings.Fields(value)
		if len(fields) == 0 {
			return 0
		}
		n, _ := strconv.Atoi(fields[len(fields)-1])
		return n
	}
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "Name":
			who.comm = strings.ToValidUTF8(strings.TrimSpace(value), "\uFFFD")
		case "Tgid":
			who.pid = last(value)
		case "Pid":
			who.tid = last(value)
		case "NStgid": // one number for each pid namespace, the innermost last
			who.pid = last(value)
		case "NSpid":
			who.tid = last(value)
		}
	}
	return who
}
