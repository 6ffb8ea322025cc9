package process

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/landlock"
	"github.com/confine-run/confine/internal/quote"
	"github.com/confine-run/confine/internal/view"
)

// landlockABI is the version that the kernel has, 0 for none.
func landlockABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// restrict compiles the ruleset. Without a mount namespace it is the only layer of file rules; with one it is a second
// layer, if the policy wants that. Otherwise it is about unix sockets alone, abstract ones and those in trees that are
// shown, which no namespace keeps apart from the host's.
func (p *fileCompiler) restrict() error {
	in := landlock.Input{ABI: p.landlock, View: p.plan.table.View, Host: hostfs.This()}
	if p.plan.Namespaces&unix.CLONE_NEWNET == 0 {
		in.Scoped = landlock.ScopeAbstractSockets
	}
	second := p.policy.Filesystem.Landlock && p.tier != tierNoNS
	if !second && p.tier != tierNoNS {
		p.plan.ruleset = landlock.Unix(in)
		p.plan.Box.Landlock = p.plan.ruleset.Landlock
		return nil
	}
	leave, _, err := in.Host.As(p.uid, p.gid)
	if err != nil {
		return err
	}
	defer leave()
	in.Scoped = landlock.ScopeAbstractSockets | landlock.ScopeSignals
	if second {
		// With sockets of its own a program may talk to itself over its own
		// loopback, which no rule about TCP can tell from others.
		in.NoTCP = p.policy.Seccomp == "strict" && !p.networked()
		in.RootWritable = p.plan.Box.Root.Kind == handoff.MountOverlay && !p.plan.Box.Root.ReadOnly
		p.plan.ruleset = landlock.Under(in)
	} else {
		in.NoTCP = !p.policy.Network.All
		in.View = p.withoutMade(in.View)
		in.TempDir, in.Root, in.DenyAtStart = p.plan.Box.TempDir, p.policy.Filesystem.Rootfs, p.plan.table.DenyAtStart
		p.plan.ruleset = landlock.Alone(in)
		// What is absent elsewhere is there and closed, and git gives up at that.
		p.plan.table.Env["GIT_CONFIG_NOSYSTEM"] = "1"
	}
	p.plan.Box.Landlock = p.plan.ruleset.Landlock
	return nil
}

// withoutMade leaves out of a view the run's own files that stand for one of the host's
// which the policy denies: where nothing is mounted, the host's would be read.
func (p *fileCompiler) withoutMade(v *view.View) *view.View {
	open := *v
	open.Made = slices.DeleteFunc(slices.Clone(v.Made), func(m view.Made) bool { return m.Kind == view.File && p.denied(m.Dst) })
	return &open
}

// rulesHere are the rules as they hold on this tier: without a mount namespace only as far as Landlock can express them.
func (p *fileCompiler) rulesHere() []view.Rule {
	rules := p.plan.table.Rules
	if p.tier != tierNoNS {
		return rules
	}
	if !p.plan.ruleset.Held() {
		return nil
	}
	rules = slices.Clone(rules)
	for _, l := range p.plan.ruleset.Limits {
		if l.Path == "" {
			rules = append(rules, view.Rule{Path: "/", Access: view.RuleHidden, Why: "what isn't allowed; but " + l.Kind.About()})
			continue
		}
		i := slices.IndexFunc(rules, func(r view.Rule) bool { return r.Path == l.Path })
		if i < 0 {
			i = len(rules)
			rules = append(rules, view.Rule{Path: l.Path})
		}
		r := &rules[i]
		if access := l.Kind.Access(); access != "" {
			r.Access = access
		}
		if r.Why == "" || l.Kind == landlock.Proc || l.Kind == landlock.OwnEtc { // of a place that isn't there here
			r.Why, r.Origin = l.Kind.About(), view.Origin{}
		} else {
			r.Why += "; " + l.Kind.About()
		}
	}
	slices.SortStableFunc(rules, func(a, b view.Rule) int { return strings.Compare(a.Path, b.Path) })
	return rules
}

const (
	whyImmutable = ", and Landlock, alone, makes no exceptions from what it allows"
	// A file in the tree would be protected itself.
	hintImmutable = "directories below can be written to; protect = [] under [sandbox.filesystem] in a --config FILE outside the tree lets all be done, " +
		"also to git's hooks and configuration"
)

// noticeImmutable says which writable directories nothing can be made in, since programs don't: they report a permission
// that the mode grants.
func (p *fileCompiler) noticeImmutable() {
	last := ""
	for _, d := range p.plan.ruleset.Immutable {
		if last != "" && strings.HasPrefix(d.Dir, last+"/") {
			continue // told with what it is in
		}
		last = strings.TrimSuffix(d.Dir, "/")
		text := "nothing can be made, renamed or removed directly in " + strconv.Quote(d.Dir)
		if deeper := p.immutableBelow(last); len(deeper) > 0 {
			text += " and " + quote.Some(deeper)
		}
		remedy, all := "", true
		for _, at := range d.For {
			if p.protects(at) {
				remedy = hintImmutable
			} else {
				all = false
			}
		}
		names := make([]string, len(d.For))
		for i, at := range d.For {
			names[i] = strings.TrimPrefix(at, last+"/")
		}
		verb, how := "are", "protected"
		if len(names) == 1 {
			verb = "is"
		}
		if !all {
			how = "protected, read-only or hidden"
		}
		p.plan.Notices = append(p.plan.Notices, hint.Notice{Text: text + ", since " + quote.Some(names) + " in it " + verb + " " + how + whyImmutable, Remedy: remedy})
	}
}

// immutableBelow are the immutable directories in dir, relative to it.
func (p *fileCompiler) immutableBelow(dir string) (names []string) {
	for _, d := range p.plan.ruleset.Immutable {
		if rest, ok := strings.CutPrefix(d.Dir, dir+"/"); ok {
			names = append(names, rest)
		}
	}
	return names
}

// protects says whether a path is what the policy protects.
func (p *fileCompiler) protects(at string) bool {
	return slices.ContainsFunc(p.plan.Rules, func(r view.Rule) bool { return r.Path == at && r.Access == view.RuleProtected })
}
