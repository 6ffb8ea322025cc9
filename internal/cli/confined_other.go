//go:build !linux

package cli

import (
	"context"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/status"
)

// Confined is the engine of a system that has no backend yet: every run is an
// INTERNAL_ERROR, and nothing is ever run unconfined.
func Confined() Engine {
	return Engine{
		Run: func(ctx context.Context, r *confine.Resolved, argv []string, io RunIO) (*status.Report, error) {
			report, err := confine.Execute(ctx, &r.Policy, &confine.Command{Argv: argv}, io.IO, nil)
			if err != nil {
				return nil, err
			}
			report.RC = report.Status.RC(status.Dialect(r.Invocation.ExitCodes), 0, 0)
			report.TraceID = io.TraceID
			return report, nil
		},
		Explain: func(_ context.Context, r *confine.Resolved, argv []string) (*Explanation, error) {
			_, err := confine.NewPlan(&r.Policy, &confine.Command{Argv: argv})
			return nil, err
		},
		Doctor: func(context.Context) ([]host.Result, error) {
			return host.RunDoctor(), nil
		},
		Selftest: trySelftest,
	}
}
