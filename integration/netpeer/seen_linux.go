package main

import (
	"fmt"
	"strings"
	"sync"
)

// seen is what the world's servers have seen.
var seen sights

type sights struct {
	mu    sync.Mutex
	lines []string
}

// maxSeen is more than any script has to look at.
const maxSeen = 20000

func (s *sights) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) < maxSeen {
		s.lines = append(s.lines, fmt.Sprintf(format, args...))
	}
}

func (s *sights) text() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []byte(strings.Join(append(s.lines, ""), "\n"))
}
