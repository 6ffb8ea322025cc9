package process

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/view"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/cgroup"
)

// groups is what cgroups give to a run. makeGroup tries it; for a plan that isn't carried out, lookForGroup looks.
type groups struct {
	source  cgroup.Source
	version int
	holds   map[cgroup.Controller]bool
	counts  bool          // CPU time
	views   []cgroup.View // what of it programs look for
	err     error         // why there is none
}

// wantsGroup says whether the policy has anything for a cgroup to do.
func wantsGroup(p *config.Policy) bool {
	return p.MemoryLimit > 0 || p.Processes > 0 || p.CPULimit > 0 || p.CPUTime > 0 || p.CgroupParent != ""
}

func groupLimits(p *config.Policy) cgroup.Limits {
	return cgroup.Limits{Memory: p.MemoryLimit, Tasks: p.Processes, CPUPercent: p.CPULimit}
}

// makeGroup makes the run's cgroup, or says why there is none. anchor gives the
// pid of the child.
func makeGroup(p *config.Policy, anchor func() int) (*cgroup.Group, groups) {
	if !wantsGroup(p) {
		return nil, groups{}
	}
	g, err := cgroup.Make(cgroup.Options{Parent: p.CgroupParent, Limits: groupLimits(p), Anchor: anchor})
	if err != nil {
		return nil, groups{err: err}
	}
	have := groups{source: g.Source(), version: g.Version(), views: g.Views(), holds: map[cgroup.Controller]bool{}}
	for _, c := range []cgroup.Controller{cgroup.Memory, cgroup.PIDs, cgroup.CPU} {
		have.holds[c], _ = g.Holds(c)
	}
	_, have.counts = g.CPUTime()
	return g, have
}

// noGroupWithoutNS: where the target sees the caller's cgroup file system, and as
// its user, it could leave its cgroup or freeze us. What watches from outside holds.
func noGroupWithoutNS(p *config.Policy) groups {
	if !wantsGroup(p) {
		return groups{}
	}
	return groups{err: errors.New("without a mount namespace the target could leave its cgroup")}
}

// lookForGroup says what makeGroup would find.
func lookForGroup(p *config.Policy) groups {
	if !wantsGroup(p) {
		return groups{}
	}
	offer := cgroup.Look(p.CgroupParent)
	if offer.Err != nil {
		return groups{err: offer.Err}
	}
	have := groups{source: offer.Source, version: offer.Version, views: offer.Views, holds: map[cgroup.Controller]bool{}}
	for _, c := range offer.Controllers {
		have.holds[c] = true
	}
	have.counts = offer.Version == 2 || offer.Has(cgroup.CPUAcct)
	return have
}

// groupRoot is where programs look for the cgroup that they are in.
const groupRoot = "/sys/fs/cgroup"

// showGroup shows the run its own cgroup, read-only, so that runtimes see the limits that
// they have instead of what the host has. The target's cgroup namespace begins there, so that
// neither /proc/self/cgroup nor /proc/self/mountinfo say what is around it. What the
// policy says about the place itself stands.
func (p *limitCompiler) showGroup() {
	t := p.plan.table
	if len(p.groups.views) == 0 || p.tier == tierNoNS || p.denied(groupRoot) ||
		slices.ContainsFunc(p.policy.Filesystem.Deny, func(pattern string) bool { return strings.HasPrefix(pattern, groupRoot+"/") }) ||
		slices.ContainsFunc(t.Mounts, func(m handoff.Mount) bool { return hostfs.Under(groupRoot, m.Dst) || hostfs.Under(m.Dst, groupRoot) }) {
		return
	}
	var views []handoff.Mount
	for _, v := range p.groups.views {
		views = append(views, handoff.Mount{Kind: handoff.MountBind, Dst: v.At, Src: v.Path, Dev: v.Dev, Ino: v.Ino,
			ReadOnly: true, Optional: true})
		for _, name := range v.Links {
			views = append(views, handoff.Mount{Kind: handoff.MountSymlink, Dst: name, Text: path.Base(v.At)})
		}
	}
	p.plan.Bounds.Views, t.Mounts = views, slices.Concat(t.Mounts, views)
	p.plan.Rules = append(p.plan.Rules, view.Rule{Path: groupRoot, Access: view.RuleRead, Why: "system: the run's own cgroup"})
	slices.SortStableFunc(p.plan.Rules, func(a, b view.Rule) int { return strings.Compare(a.Path, b.Path) })
}

// file names the file of cgroupfs that holds a limit.
func (g *groups) file(c cgroup.Controller) string {
	switch {
	case c == cgroup.Memory && g.version == 1:
		return "memory.limit_in_bytes"
	case c == cgroup.Memory:
		return "memory.max, memory.oom.group"
	case c == cgroup.PIDs:
		return "pids.max"
	case g.version == 1:
		return "cpu.cfs_quota_us"
	}
	return "cpu.max"
}

// cgroup writes down where the run's is made, or why there is none.
func (p *limitCompiler) cgroup() {
	l, g, asked := p.plan.Ledger, &p.groups, p.policy.CgroupParent
	switch {
	case g.source != "" && asked == "":
		l.Ask(status.Cgroup, "any")
		fallthrough
	case g.source != "":
		l.Enforced(status.Cgroup, string(g.source), "")
	case asked != "":
		l.Missing(status.Cgroup, status.CgroupNotDelegated, g.err.Error())
	case g.err != nil:
		// Not which call was refused: looking and trying find out by different ones.
		l[status.Cgroup] = status.Enforcement{Requested: "any", Mechanism: "none",
			Details: "there is none that this user may write, or get from systemd", FallbackReason: status.CgroupNotDelegated}
	}
}
