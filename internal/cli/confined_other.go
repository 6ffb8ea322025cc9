//go:build !linux

package cli

import (
	"context"
	"errors"
	"runtime"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/status"
)

// Confined is the engine of a system that has no backend yet: every run is an
// INTERNAL_ERROR, and nothing is ever run unconfined.
func Confined() Engine {
	none := backend.None{System: runtime.GOOS}
	return Engine{
		Run: func(ctx context.Context, r *config.Resolved, argv []string, io RunIO) (*status.Report, error) {
			s := &backend.Spec{Policy: &r.Policy, Argv: argv}
			_, report, err := backend.Open(ctx, none, s)
			if report == nil {
				return nil, errors.Join(err, errors.ErrUnsupported)
			}
			report.RC = report.Status.RC(status.Dialect(r.Invocation.ExitCodes), 0, 0)
			report.TraceID = io.TraceID
			return report, nil
		},
		Explain: func(ctx context.Context, r *config.Resolved, argv []string) (*Explanation, error) {
			_, err := none.Plan(ctx, &backend.Spec{Policy: &r.Policy, Argv: argv})
			return nil, err
		},
		Doctor: func(context.Context) ([]host.Result, error) {
			return host.RunDoctor(), nil
		},
		Selftest: trySelftest,
	}
}
