package cli

import (
	"fmt"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/terminal"
)

// mostAttempts bounds the lines about attempts that nobody asked for; the report
// names more, up to a bound of its own, and counts the rest.
const mostAttempts = 50

// attempts says what a run tried to reach: what was refused always, what was allowed
// with --log-network.
func (s *session) attempts(n *confine.Network) func(status.Attempt) {
	said := 0
	return func(a status.Attempt) {
		if s.log.level == "quiet" || !n.Log && a.Verdict == status.AttemptAllowed {
			return
		}
		if said++; !n.Log && said > mostAttempts {
			if said == mostAttempts+1 {
				s.log.notice("network: further attempts are not told here; the report names more of them, and counts them all")
			}
			return
		}
		s.log.emit(record{Level: "notice", Msg: attempted(&a), Network: &a})
	}
}

// attempted is one attempt in words.
func attempted(a *status.Attempt) string {
	msg := "network: " + a.Verdict + " " + a.What
	if a.Protocol == "udp" {
		msg += "/udp"
	}
	if a.PID != 0 {
		msg += fmt.Sprintf(" (%s, pid %d)", terminal.Visible(a.Comm), a.PID)
	}
	switch a.Why {
	case "", "not_allowed":
	default:
		msg += ": " + a.Why
	}
	if a.Claimed != "" {
		msg += " " + a.Claimed
	}
	if a.Hint != "" {
		msg += "; allow with " + a.Hint
	}
	return msg
}
