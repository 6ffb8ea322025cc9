package process

import (
	"testing"

	"github.com/confine-run/confine/backend/conformance"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Target{Backend: Backend{}, Program: func(does ...string) []string {
		script := map[string]string{
			"echo": `printf '%s\n' "$*"`, "cat": "cat", "exit": "exit $1", "sleep": "exec sleep 100", "write": `printf %s "$2" >"$1"`, "read": `cat "$1"`,
			"env": `eval "printf '%s\n' \"\$$1\""`, "pwd": "pwd", "size": "stty size", "err": `printf '%s\n' "$*" >&2`, "flood": "while :; do echo 0123456789; done",
			"denied": "mount -t tmpfs none /tmp; exec sleep 100",
		}[does[0]]
		return append([]string{"sh", "-c", script, does[0]}, does[1:]...)
	}})
}
