package seccomp

import (
	"path/filepath"
	"slices"
)

// Filter is a policy compiled for one architecture and one action.
type Filter struct {
	// Program is ready for seccomp(2), with each sock_filter packed as
	// code<<48 | jt<<40 | jf<<32 | k.
	Program []uint64
	Kind    string // "default", "strict" or "file"
	Version string // "default/2", "strict/2", or the file's base name; with "+NAME" for each addition
	Digest  string // of the policy, see Policy.Digest
	Notices []Notice

	// What the program was made of, to say why it refused a call.
	policy *Policy
	table  *table
	action Action
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

// Build compiles what --seccomp names: "default", "strict" or a policy file,
// for an architecture as in runtime.GOARCH. Without additions, the policies that
// ship were compiled beforehand, and nothing is left to do.
//
// Errors are *ArchError, *ActionError, *PolicyError, *TargetError, *SizeError, or from reading
// the file.
func Build(spec string, action Action, arch string, with ...Addition) (*Filter, error) {
	return BuildFor(spec, action, Target{Arch: arch}, with...)
}

// BuildFor is Build where the kernel is known, too.
func BuildFor(spec string, action Action, on Target, with ...Addition) (*Filter, error) {
	if err := action.check(); err != nil {
		return nil, err
	}
	t, err := tableOf(on.Arch)
	if err != nil {
		return nil, err
	}
	if b := builtinOf(spec); b != nil && len(with) == 0 {
		for i := range b.programs {
			if p := &b.programs[i]; p.arch == on.Arch && p.action == action {
				return &Filter{slices.Clone(p.program), b.policy.Kind, b.policy.Version, b.digest, nil, &b.policy, t, action}, nil
			}
		}
	}
	p, err := LoadFor(spec, on, with...)
	if err != nil {
		return nil, err
	}
	return p.Compile(action, on.Arch)
}

// BuildText is BuildFor of a policy file that was read before.
func BuildText(text []byte, name string, action Action, on Target, with ...Addition) (*Filter, error) {
	p, err := ParseFor(text, name, on)
	if err == nil {
		p, err = p.lay(with)
	}
	if err != nil {
		return nil, err
	}
	return p.Compile(action, on.Arch)
}

// IsFile says whether --seccomp names a file.
func IsFile(spec string) bool { return builtinOf(spec) == nil }

// Load gives the policy that --seccomp names, for reading. It must not be changed.
func Load(spec string, with ...Addition) (*Policy, error) { return LoadFor(spec, here(), with...) }

// LoadFor is Load for another machine than this one.
func LoadFor(spec string, on Target, with ...Addition) (*Policy, error) {
	var p *Policy
	if b := builtinOf(spec); b != nil {
		p = &b.policy
	} else {
		var err error
		if p, err = readFile(spec, on); err != nil {
			return nil, err
		}
	}
	return p.lay(with)
}

// lay lays additions over it.
func (p *Policy) lay(with []Addition) (*Policy, error) {
	for i, name := range with {
		if name == BeyondStrict {
			if i > 0 || p != &builtinDefault.policy {
				return nil, &PolicyError{File: string(name), Msg: "it takes the place of \"default\" and of nothing else"}
			}
			p = beyondStrict()
			continue
		}
		rules := additionOf(name)
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
		q.Rules = append(slices.Clip(slices.Clone(rules)), p.Rules...)
		p = &q
	}
	return p, nil
}

// Parse reads a policy from the text of a file. The name is for errors and for
// the policy's version.
func Parse(text []byte, name string) (*Policy, error) { return ParseFor(text, name, here()) }

// ParseFor is Parse for another machine than this one.
func ParseFor(text []byte, name string, on Target) (*Policy, error) {
	read := parse
	if isJSON(text) {
		read = func(text []byte, name string) (*Policy, error) { return parseOCI(text, name, on) }
	}
	p, err := read(text, name)
	if err != nil {
		return nil, err
	}
	p.Kind, p.Version = "file", filepath.Base(name)
	return p, nil
}

// Compile makes the filter of the policy for one action and one architecture.
func (p *Policy) Compile(action Action, arch string) (*Filter, error) {
	if err := action.check(); err != nil {
		return nil, err
	}
	t, err := tableOf(arch)
	if err != nil {
		return nil, err
	}
	if p.arch != "" && p.arch != arch {
		return nil, &TargetError{p.arch, arch}
	}
	program, err := p.assemble(t, action)
	if err != nil {
		return nil, err
	}
	return &Filter{program, p.Kind, p.Version, p.Digest(), p.Notices, p, t, action}, nil
}

// builtin is a policy that ships, with its programs.
type builtin struct {
	policy   Policy
	digest   string
	programs []program
}

type program struct {
	arch    string
	action  Action
	program []uint64
}

func builtinOf(spec string) *builtin {
	switch spec {
	case "default":
		return &builtinDefault
	case "strict":
		return &builtinStrict
	}
	return nil
}

func additionOf(name Addition) []Rule {
	switch name {
	case SharedPIDs:
		return additionSharedPIDs.Rules
	case SharedIPC:
		return additionSharedIPC.Rules
	case NoNetwork:
		return additionNoNetwork.Rules
	case KeepCPUs:
		return additionKeepCPUs.Rules
	case SupervisedNetwork:
		return additionSupervisedNetwork.Rules
	case Network:
		return additionNetwork.Rules
	case WatchedFiles:
		return additionWatchedFiles.Rules
	case WatchedLooks:
		return additionWatchedLooks.Rules
	}
	return nil
}
