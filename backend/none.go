package backend

import (
	"context"
	"errors"
	"os"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// None is the backend of a system, or of an isolation, that has none: it refuses everything, and nothing is ever run
// unconfined instead.
type None struct{ System string }

func (n None) Name() string { return n.System + "-none" }

func (n None) Plan(_ context.Context, s *Spec) (Plan, error) {
	details := "not supported yet on " + n.System
	ledger := status.Ledger{status.Containment: {
		Requested: "all", Enabled: true, Mechanism: "none", Details: details, FallbackReason: status.PlatformUnsupported,
	}}
	return nothing{ledger}, &config.Unenforceable{
		Capability: status.Containment, Requested: "all", Reason: status.PlatformUnsupported, Details: details,
		Hint: "run it on Linux", Ledger: ledger, Err: errors.ErrUnsupported,
	}
}

func (n None) Build(context.Context, Plan) (Sandbox, error) { return nil, errors.ErrUnsupported }

type nothing struct{ ledger status.Ledger }

func (n nothing) Ledger() status.Ledger               { return n.ledger }
func (nothing) Key() [32]byte                         { return [32]byte{} }
func (nothing) Ask(config.Ask) (config.Answer, error) { return config.Answer{}, errors.ErrUnsupported }

// ended is a process that was never there.
type ended struct{ report *status.Report }

// Unstarted says whether it is such a process of [Run]: its report says why.
func Unstarted(p Process) bool {
	_, is := p.(ended)
	return is
}

func (ended) Signal(os.Signal) error { return os.ErrProcessDone }
func (ended) Resize(WinSize) error   { return os.ErrProcessDone }
func (ended) Usage() (Usage, error)  { return Usage{}, os.ErrProcessDone }
func (e ended) Wait() *status.Report { return e.report }
