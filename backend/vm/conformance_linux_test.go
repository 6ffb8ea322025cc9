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
	conformance.Run(t, conformance.Target{Backend: few{Backend{kernel: kernelHere(t)}}, Snapshots: true, Forks: true, Program: conformance.Shell})
}
