//go:build !linux

package selftest

import (
	"context"
	"errors"

	"github.com/confine-run/confine/internal/config"
)

// Main does nothing here: there is no inside.
func Main() {}

// Run fails: there is nothing to be tested.
func Run(context.Context, *config.Policy, []string) ([]Result, error) {
	return nil, errors.ErrUnsupported
}

// driver has nothing to drive here.
type driver struct{}

func (*driver) killed(context.Context, *attempt, *Result) (Outcome, string)  { return NotTestable, "" }
func (*driver) bombed(context.Context, *attempt, *Result) (Outcome, string)  { return NotTestable, "" }
func (*driver) flooded(context.Context, *attempt, *Result) (Outcome, string) { return NotTestable, "" }
func (*driver) escaped(context.Context, *attempt, *Result) (Outcome, string) { return NotTestable, "" }
