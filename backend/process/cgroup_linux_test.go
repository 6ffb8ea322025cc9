package process

import (
	"slices"
	"testing"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/view"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/cgroup"
)

// planWith is the plan of a run that has these views of its cgroup.
func planWith(t *testing.T, g tier, change func(*config.Policy), views ...cgroup.View) *Plan {
	t.Helper()
	policy := config.Default()
	policy.AllowPartial = []string{"all"}
	change(&policy)
	command := &Command{Argv: []string{"true"}, Dir: t.TempDir(), Environ: []string{}}
	have := groups{source: cgroup.CgroupV1, version: 1, views: views}
	p, err := newPlan(&policy, command, func(*Plan) groups { return have }, g, downgrade{reason: status.UsernsDenied})
	must.Do(t, err)
	return p
}

func TestARunSeesItsOwnCgroup(t *testing.T) {
	views := []cgroup.View{
		{Path: "/sys/fs/cgroup/memory/a/run", Dev: 1, Ino: 2, At: "/sys/fs/cgroup/memory"},
		{Path: "/sys/fs/cgroup/cpu,cpuacct/a/run", Dev: 3, Ino: 4, At: "/sys/fs/cgroup/cpu,cpuacct", Links: []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct"}},
	}
	for _, c := range []struct {
		name   string
		tier   tier
		change func(*config.Policy)
		shown  bool
	}{
		{"always", tierUserNS, func(*config.Policy) {}, true},
		{"as root without a user namespace", tierRoot, func(*config.Policy) {}, true},
		{"virtual", tierUserNS, func(p *config.Policy) { p.Filesystem.Virtual = true }, true},
		{"beside another part of /sys", tierUserNS, func(p *config.Policy) { p.Filesystem.AllowRead = []string{"/sys/kernel"} }, true},
		{"without mounts", tierNoNS, func(*config.Policy) {}, false},
		{"denied", tierUserNS, func(p *config.Policy) { p.Filesystem.Deny = []string{"/sys/fs/cgroup"} }, false},
		{"denied above", tierUserNS, func(p *config.Policy) { p.Filesystem.Deny = []string{"/sys"} }, false},
		{"denied by a pattern", tierUserNS, func(p *config.Policy) { p.Filesystem.Deny = []string{"/sys/*/cgroup"} }, false},
		{"denied in part", tierUserNS, func(p *config.Policy) { p.Filesystem.Deny = []string{"/sys/fs/cgroup/memory"} }, false},
		{"the caller's, named", tierUserNS, func(p *config.Policy) { p.Filesystem.AllowRead = []string{"/sys/fs"} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planWith(t, c.tier, c.change, views...)
			var own []handoff.Mount
			for _, m := range slices.Concat(p.Box.Mounts, p.Bounds.Views) {
				if slices.ContainsFunc(views, func(v cgroup.View) bool {
					return m.Src == v.Path || hostfs.Under(m.Dst, v.At) || slices.Contains(v.Links, m.Dst)
				}) {
					own = append(own, m)
				}
			}
			ruled := slices.Contains(p.Rules, view.Rule{Path: groupRoot, Access: view.RuleRead, Why: "system: the run's own cgroup"})
			if ruled != c.shown {
				t.Errorf("a rule: %v", ruled)
			}
			if !c.shown {
				if len(own) > 0 {
					t.Errorf("%+v", own)
				}
				return
			}
			want := []handoff.Mount{
				{Kind: handoff.MountBind, Dst: "/sys/fs/cgroup/memory", Src: views[0].Path, Dev: 1, Ino: 2, ReadOnly: true, Optional: true},
				{Kind: handoff.MountBind, Dst: "/sys/fs/cgroup/cpu,cpuacct", Src: views[1].Path, Dev: 3, Ino: 4, ReadOnly: true, Optional: true},
				{Kind: handoff.MountSymlink, Dst: "/sys/fs/cgroup/cpu", Text: "cpu,cpuacct"},
				{Kind: handoff.MountSymlink, Dst: "/sys/fs/cgroup/cpuacct", Text: "cpu,cpuacct"},
			}
			if !slices.Equal(own, want) {
				t.Errorf("got  %+v\nwant %+v", own, want)
			}
		})
	}
	if p := planWith(t, tierUserNS, func(*config.Policy) {}); len(p.Bounds.Views) > 0 {
		t.Error("no cgroup, and one is shown")
	}
}

func TestScratchLimit(t *testing.T) {
	for _, c := range []struct{ disk, memory, want int64 }{
		{1 << 30, 512 << 20, 384 << 20},
		{1 << 20, 512 << 20, 1 << 20},
		{1 << 30, 0, 1 << 30},
		{0, 512 << 20, 0},
	} {
		p := config.Policy{DiskLimit: c.disk, MemoryLimit: c.memory}
		if got := p.ScratchLimit(); got != c.want {
			t.Errorf("%d of disk and %d of memory: %d, want %d", c.disk, c.memory, got, c.want)
		}
	}
	p := planWith(t, tierUserNS, func(p *config.Policy) { p.DiskLimit, p.MemoryLimit = 2<<30, 512<<20 })
	if e := p.Ledger[status.Disk]; p.Box.Scratch.Size != 384<<20 || e.Requested != "2G" || !e.Effective {
		t.Errorf("%d, %+v", p.Box.Scratch.Size, e)
	}
}
