package seccomp

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// Filter is a policy compiled for one architecture and one action.
type Filter struct {
	// Program is ready for seccomp(2), with each sock_filter packed as
	// code<<48 | jt<<40 | jf<<32 | k.
	Program []uint64
	Kind    string // as the policy's
	Version string
	Digest  string // of the policy, see Policy.Digest
	Notices []Notice

	// What the program was made of, to say why it refused a call.
	policy *Policy
	table  *Table
	action Action
}

// Compile makes the filter of the policy for one action and one architecture. The policies
// that ship were compiled beforehand for the action of their profiles: assembling one takes a tenth of a millisecond.
func (p *Policy) Compile(action Action, arch string) (*Filter, error) {
	switch action {
	case ActionErrno, ActionKill, ActionLog:
	default:
		return nil, fmt.Errorf("seccomp action %q is none of errno, kill, log", string(action))
	}
	t, err := TableOf(arch)
	if err != nil {
		return nil, err
	}
	if p.Arch != "" && p.Arch != arch {
		return nil, fmt.Errorf("seccomp: the policy was read for %s, and is to be compiled for %s", p.Arch, arch)
	}
	f := &Filter{Kind: p.Kind, Version: p.Version, Notices: p.Notices, policy: p, table: t, action: action}
	for i := range builtins {
		b := &builtins[i]
		made := &b.made
		if p != &b.policy {
			if made = &b.keepsCPUs; p != keepers[i].Load() {
				continue
			}
		}
		f.Digest = made.digest
		for j := range made.programs {
			if program := &made.programs[j]; program.arch == arch && action == b.action {
				f.Program = slices.Clone(program.program)
				return f, nil
			}
		}
	}
	if f.Digest == "" {
		f.Digest = p.Digest()
	}
	f.Program, err = p.assemble(t, action)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// builtin is a policy that ships, with what it is compiled to for the action that the profiles give it.
type builtin struct {
	policy    Policy
	action    Action
	made      made
	keepsCPUs made // with KeepCPUs, which most runs have
}

// keepers are the builtins with KeepCPUs, once they were asked for.
var keepers [len(builtins)]atomic.Pointer[Policy]

type made struct {
	digest   string
	programs []program
}

type program struct {
	arch    string
	program []uint64
}

// Builtin is the policy that ships under a name: "default" or "strict"; or nil.
func Builtin(name string) *Policy {
	for i := range builtins {
		if p := &builtins[i].policy; p.Kind == name {
			return p
		}
	}
	return nil
}

// Addition is a short policy that ships and is laid over another one when the
// host lacks what that one counts on. Its rules come first.
type Addition string

const (
	SharedPIDs Addition = "shared-pids/2" // there is no pid namespace
	SharedIPC  Addition = "shared-ipc/1"  // there is no IPC namespace
	NoNetwork  Addition = "no-network/1"  // there is no network namespace, and is to be no network
	KeepCPUs   Addition = "keep-cpus/1"   // --cpus is held by sched_setaffinity alone
	// There is no network namespace, and whoever listens makes the calls that say whom
	// to reach. Without a listener there is no network.
	SupervisedNetwork Addition = "supervised-network/2"
	Network           Addition = "network/1" // hosts may be reached; strict alone has no sockets for that
	// Whoever listens looks at the paths that calls name, and lets the kernel make them:
	// WatchedFiles those that open, make, change or execute something, WatchedLooks those
	// that ask. Nothing but Filter.Notifying of such a filter may be loaded.
	WatchedFiles Addition = "watched-files/1"
	WatchedLooks Addition = "watched-looks/1"
	// Whoever listens is told of what strict would have refused, and lets it through if
	// default does. It comes first, takes the place of default, and only Filter.Notifying of
	// such a filter may be loaded, too.
	BeyondStrict Addition = "beyond-strict/1"
)

// policy is an addition's, or nil.
func (a Addition) policy() *Policy {
	for i := range additions {
		if additions[i].Version == string(a) {
			return &additions[i]
		}
	}
	return nil
}

// Rules are those of an addition, nil of BeyondStrict and of what is none.
func (a Addition) Rules() []Rule {
	if p := a.policy(); p != nil {
		return slices.Clone(p.Rules)
	}
	return nil
}

// With lays additions over a policy.
func (p *Policy) With(all ...Addition) (*Policy, error) {
	laid, err := p.with(all)
	if len(all) != 1 || all[0] != KeepCPUs || err != nil {
		return laid, err
	}
	for i := range builtins {
		if p == &builtins[i].policy {
			keepers[i].CompareAndSwap(nil, laid)
			return keepers[i].Load(), nil
		}
	}
	return laid, nil
}

func (p *Policy) with(all []Addition) (*Policy, error) {
	for i, name := range all {
		if name == BeyondStrict {
			if i > 0 || p != Builtin("default") {
				return nil, &PolicyError{File: string(name), Msg: "it takes the place of \"default\" and of nothing else"}
			}
			p = beyondStrict()
			continue
		}
		rules := name.Rules()
		if rules == nil {
			return nil, &PolicyError{File: string(name), Msg: "no such addition"}
		}
		q := *p
		switch {
		case name == WatchedFiles || name == WatchedLooks:
			q.watching += len(rules)
		case q.watching > 0:
			return nil, &PolicyError{File: string(name), Msg: "it can't be laid over what is only watched"}
		}
		q.Version += "+" + string(name)
		q.Rules = append(rules, p.Rules...)
		p = &q
	}
	return p, nil
}
