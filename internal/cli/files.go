package cli

import (
	"fmt"
	"strings"
	"sync"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/terminal"
)

// refusedFiles says which accesses to files the rules refuse, with --log-files, each kind
// once; nil says nothing. It is called from several goroutines.
func (s *session) refusedFiles(f *confine.Filesystem) func(status.Violation) {
	if !f.Log || s.log.level == "quiet" {
		return nil
	}
	var mu sync.Mutex
	said := 0
	return func(v status.Violation) {
		if v.Kind != "file" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		switch said++; {
		case said <= mostAttempts:
			s.log.emit(record{Level: "notice", Msg: refusedFile(&v), File: &v})
		case said == mostAttempts+1:
			s.log.notice("file: further ones are not told here; the report names more of them, and counts them all")
		}
	}
}

// refusedFile is one refused access in words.
func refusedFile(v *status.Violation) string {
	msg := "file: blocked " + v.What
	if v.PID != 0 {
		msg += fmt.Sprintf(" (%s, pid %d)", terminal.Visible(v.Comm), v.PID)
	}
	switch {
	case strings.HasPrefix(v.Hint, "--"):
		msg += "; allow with " + v.Hint
	case v.Hint != "":
		msg += "; " + v.Hint
	case v.Rule != "":
		msg += ": " + v.Rule
	}
	return msg
}
