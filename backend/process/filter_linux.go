package process

import (
	"crypto/rand"
	"encoding/binary"
	"runtime"
	"slices"
	"strconv"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/internal/seccomp"
	"github.com/confine-run/confine/internal/seccomp/policyfile"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/denials"
)

// The mechanisms of the system call policy: with its denials told, or not.
const notifying, silent = "seccomp_notify", "seccomp_bpf"

// filterCompiler compiles the policy of system calls, and what its listener is to look at besides.
type filterCompiler struct {
	*planner
	network *networkCompiler
	base    *seccomp.Policy
	on      policyfile.Target
	with    []seccomp.Addition // what else of the plan has laid over it
}

func (p *filterCompiler) compile() error {
	l, refuse := p.plan.Ledger, &p.plan.Box.Refuse
	if p.policy.Seccomp == "off" || p.policy.Seccomp == "" {
		// Without it nothing stands against nested user namespaces where the kernel's own limit doesn't.
		refuse.NestedUserns = true
		l.Unasked(status.Syscalls, "off", "")
		p.unwatched("there is no system call filter, and it is what sees them")
		p.network.filtered(nil)
		return nil
	}
	if err := p.load(); err != nil {
		return err
	}
	p.add()
	f, err := p.build()
	if err != nil {
		return usage(err)
	}
	if len(f.Program) == 0 {
		refuse.NestedUserns = true // as above
	}
	p.noticesOf(f)
	e := &p.plan.Exec
	e.Seccomp = f.Program
	told := !slices.Contains(p.policy.Require, string(status.Syscalls)+"="+silent)
	if p.plan.Network.Supervised {
		// What was compiled is for where nobody listens, so that there is no network. That is only for those who accept it.
		refuse.NoListener = refuse.NoListener || !config.AllowsPartial(p.policy, status.Network)
		p.with[len(p.with)-1] = seccomp.SupervisedNetwork
		if f, err = p.build(); err != nil {
			return usage(err)
		}
	}
	if told {
		e.SeccompNotify = f.Notifying()
	}
	p.plan.Seccomp, p.plan.SeccompKills = f, p.policy.SeccompAction == "kill"
	if p.plan.Network.Supervised && len(e.SeccompNotify) == 0 {
		p.network.unsupervised(cantSupervise)
	}
	p.network.filtered(f)
	p.told(f)
	if !told {
		p.unwatched("the policy wants its system call filter to be silent")
		return nil
	}
	return p.watch()
}

// load reads the policy.
func (p *filterCompiler) load() (err error) {
	name := p.policy.Seccomp
	p.on = policyfile.Target{Arch: runtime.GOARCH}
	if policyfile.IsFile(name) { // a file may ask for the kernel; what ships doesn't
		if err := p.command.reaches(p.policy, "--seccomp", name); err != nil {
			return err
		}
		p.on.Kernel = policyfile.Kernel(p.host.Kernel())
	}
	if text, ok := p.policy.TrustedSeccomp(); ok {
		p.base, err = policyfile.Parse(text, name, p.on)
	} else {
		p.base, err = policyfile.Load(name, p.on)
	}
	if err != nil {
		return usage(err)
	}
	return nil
}

// add finds what is laid over it. What is about the network is the last.
func (p *filterCompiler) add() {
	if p.command.WatchCalls {
		p.with = append(p.with, seccomp.BeyondStrict)
		p.plan.Box.Refuse.NoListener = true // nobody would let them through
	}
	// Who watches is told of these calls, too: whether the next run has them is known afterwards.
	if p.policy.Seccomp == "strict" && !p.command.WatchCalls && p.networked() {
		p.with = append(p.with, seccomp.Network)
	}
	if len(p.plan.Exec.CPUs) > 0 {
		p.with = append(p.with, seccomp.KeepCPUs)
	}
	if p.tier == tierNoNS {
		p.with = append(p.with, seccomp.SharedPIDs, seccomp.SharedIPC)
		if !p.policy.Network.All {
			p.with = append(p.with, seccomp.NoNetwork)
		}
	}
}

func (p *filterCompiler) build(watch ...seccomp.Addition) (*seccomp.Filter, error) {
	laid, err := p.base.With(slices.Concat(p.with, watch)...)
	if err != nil {
		return nil, err
	}
	return laid.Compile(seccomp.Action(p.policy.SeccompAction), p.on.Arch)
}

func (p *filterCompiler) noticesOf(f *seccomp.Filter) {
	if n := len(f.Notices); n > 0 {
		text := p.policy.Seccomp + ": " + f.Notices[0].String()
		if n > 1 {
			text += " (" + strconv.Itoa(n-1) + " more: confine seccomp check FILE)"
		}
		p.notice(text)
	}
}

// told writes down which policy holds, and whether its denials are told.
func (p *filterCompiler) told(f *seccomp.Filter) {
	l, mechanism := p.plan.Ledger, silent
	if len(p.plan.Exec.SeccompNotify) > 0 {
		mechanism = notifying
	}
	l.Ask(status.Syscalls, f.Version+", "+p.policy.SeccompAction)
	l.Enforced(status.Syscalls, mechanism, f.Digest)
	e := l[status.Syscalls]
	e.PolicyKind, e.Version = f.Kind, f.Version
	l[status.Syscalls] = e
}

const cantSupervise = "this policy of system calls can't be supervised"

// watch lays over the filter that is loaded first what hands on the calls that name
// files. The one that is loaded where nobody can listen stays as it is.
func (p *filterCompiler) watch() error {
	f := plan.Files{Log: p.policy.Filesystem.Log, Watch: p.command.WatchFiles}
	if !f.Any() {
		return nil
	}
	with := []seccomp.Addition{seccomp.WatchedFiles}
	if f.Watch {
		with = append(with, seccomp.WatchedLooks)
	}
	filter, err := p.build(with...)
	if err != nil {
		return usage(err)
	}
	program := filter.Notifying()
	if len(program) == 0 {
		p.unwatched(cantSupervise)
		return nil
	}
	p.plan.watched, p.plan.Files = filter, f
	p.plan.Exec.SeccompNotify, p.plan.Exec.SeccompPass = program, unguessable()
	if f.Log {
		p.plan.Ledger.Note(status.Filesystem, "what the rules refuse is told ("+notifying+", "+string(seccomp.WatchedFiles)+")")
	}
	return nil
}

// unwatched writes down why nobody sees which files are used, where that was asked for.
func (p *filterCompiler) unwatched(why string) {
	if p.policy.Filesystem.Log {
		p.plan.Ledger.Note(status.Filesystem, "what the rules refuse is not told: "+why)
	}
}

// unguessable is a number that isn't 0.
func unguessable() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.NativeEndian.Uint64(b[:]) | 1
}

// judge answers for the filter of a plan: the same policy that it was compiled from.
type judge struct {
	filter *seccomp.Filter
	// Calls that are only looked at, and of which architecture: they are most of all.
	audit uint32
	free  map[uint32]bool
}

// judge knows the filter that is loaded first.
func (p *Plan) judge() judge {
	if p.watched == nil {
		return judge{filter: p.Seccomp}
	}
	j := judge{filter: p.watched}
	j.audit, j.free = p.watched.Free()
	return j
}

func (j judge) Answer(c *denials.Call, text func(addr uint64) string) denials.Answer {
	if j.free[c.Nr] && c.Arch == j.audit {
		return denials.Answer{Rule: seccomp.Watched, Supervised: true}
	}
	r := j.filter.Refusal(c.Arch, c.Nr, c.Args, text)
	return denials.Answer{What: r.What, Rule: r.Rule, Kill: r.Kill, Errno: r.Errno, Supervised: r.Supervised, Untold: r.Untold, Let: r.Let}
}

func (j judge) Hint(c *denials.Call) string { return j.filter.Hint(c.Arch, c.Nr, c.Args) }
