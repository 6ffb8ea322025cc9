//go:build !linux

package confine

import (
	"context"
	"errors"
	"runtime"

	"github.com/confine-run/confine/confine/view"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

// Backend is what carries out plans on this system: nothing yet.
const Backend = runtime.GOOS + "-none"

// Plan is what will be done for one run on this host.
type Plan struct {
	plan.Plan
	Rules  []view.Rule
	policy *Policy
}

// Policy is what the plan was made from.
func (p *Plan) Policy() *Policy { return p.policy }

// ErrUnsupported is the answer on a system for which there is no backend yet.
var ErrUnsupported = errors.New("not supported yet on " + runtime.GOOS)

// NewPlan always fails: nothing is ever run unconfined instead.
func NewPlan(policy *Policy, command *Command) (*Plan, error) {
	if err := command.fill(); err != nil {
		return nil, err
	}
	ledger := map[status.Capability]status.Enforcement{
		status.Containment: {
			Requested: "all", Enabled: true, Mechanism: "none",
			Details: ErrUnsupported.Error(), FallbackReason: status.PlatformUnsupported,
		},
	}
	p := &Plan{policy: policy}
	p.Ledger = ledger
	return p, &Unenforceable{
		Capability: status.Containment, Requested: "all",
		Reason: status.PlatformUnsupported, Details: ErrUnsupported.Error(),
		Hint: "run it on Linux", Ledger: ledger, Err: ErrUnsupported,
	}
}

// Init does nothing here.
func Init() {}

// Execute reports that nothing can be carried out.
func Execute(_ context.Context, policy *Policy, command *Command, _ IO, _ func(*Plan)) (*status.Report, error) {
	_, err := NewPlan(policy, command)
	var cant *Unenforceable
	if !errors.As(err, &cant) {
		return nil, err
	}
	return Refused(cant, policy, command), nil
}
