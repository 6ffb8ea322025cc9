package confine

import (
	"context"

	"github.com/confine-run/confine/backend"
)

// Usage is what a sandbox or a process uses at a moment: CPU time of all of its life, bytes of memory, tasks, and bytes of files in
// private places and overlays. -1 is what nobody counts.
type Usage = backend.Usage

// Usage is what everybody inside uses now: as the cgroup counts, or by a sample of the processes. Nothing is looked at as long as nobody asks.
func (s *Sandbox) Usage() (Usage, error) { return s.box.Usage() }

// Network changes whom the processes inside may reach from now on: n is all of it, as in a policy. What was allowed and isn't any more ends
// before it returns, connections that are open included, and reports that follow have the digest of the policy with n. What a
// sandbox can't be given while it stands is a *[UsageError] and changes nothing: the caller's own network, published ports, other
// ports of localhost, and any network where it was opened with none. One that is to be given some later is opened with Allow "*" and Deny "*".
func (s *Sandbox) Network(ctx context.Context, n *Network) error { return s.box.Network(ctx, n) }

// Usage is what the process and those that it started use now. What has ended is os.ErrProcessDone: its report has what it used.
func (p *Process) Usage() (Usage, error) { return p.p.Usage() }
