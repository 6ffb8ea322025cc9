package vm

import (
	"context"
	"testing"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/conformance"
)

// few boots no more machines at a time than an emulating host has CPUs for.
type few struct{ Backend }

var booting = make(chan struct{}, 2) // the CPUs of a host that emulates are few

func (n few) Build(ctx context.Context, p backend.Plan) (backend.Sandbox, error) {
	booting <- struct{}{}
	defer func() { <-booting }()
	return n.Backend.Build(ctx, p)
}

func TestMachinesConform(t *testing.T) {
	conformance.Run(t, conformance.Target{Backend: few{Backend{kernel: kernelHere(t)}}, Snapshots: true, Forks: true, Program: func(does ...string) []string {
		script := map[string]string{
			"echo": `printf '%s\n' "$*"`, "cat": "cat", "exit": "exit $1", "sleep": "exec sleep 100", "write": `printf %s "$2" >"$1"`, "read": `cat "$1"`,
			"env": `eval "printf '%s\n' \"\$$1\""`, "pwd": "pwd", "size": "stty size", "err": `printf '%s\n' "$*" >&2`, "burn": "(while :; do :; done) & wait", "flood": "while :; do echo 0123456789; done",
			"denied": "mount -t tmpfs none /tmp; exec sleep 100",
		}[does[0]]
		return append([]string{"sh", "-c", script, does[0]}, does[1:]...)
	}})
}
