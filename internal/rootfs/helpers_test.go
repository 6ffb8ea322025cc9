package rootfs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/view"
)

type run struct {
	*Table
	t testing.TB
}

func environ(pairs ...string) func(string) string {
	return func(k string) string {
		for _, p := range pairs {
			if name, v, _ := strings.Cut(p, "="); name == k {
				return v
			}
		}
		return ""
	}
}

func compile(t testing.TB, h hostfs.Host, change func(*view.Input)) run {
	t.Helper()
	table, err := Compile(hosttest.Input(h, change))
	must.Do(t, err)
	wellFormed(t, table)
	return run{table, t}
}

var kindNames = map[handoff.MountKind]string{handoff.MountDir: "dir", handoff.MountFile: "file", handoff.MountSymlink: "link",
	handoff.MountBind: "bind", handoff.MountScratch: "scratch", handoff.MountOverlay: "overlay", handoff.MountProc: "proc",
	handoff.MountDevpts: "devpts", handoff.MountMask: "mask", handoff.MountReadOnly: "readonly", handoff.MountPin: "pin", handoff.MountTmpfs: "tmpfs",
	handoff.MountBeneath: "beneath", handoff.MountAbsent: "absent"}

// at says in short what the table has at a path: "ro /src", "rw /src",
// "overlay /src", "scratch", "mask", "link target", …, joined by "+".
func (r run) at(p string) string {
	var all []string
	for _, m := range r.Mounts {
		if m.Dst != p {
			continue
		}
		s := kindNames[m.Kind]
		switch m.Kind {
		case handoff.MountBind:
			s = map[bool]string{true: "ro ", false: "rw "}[m.ReadOnly] + m.Src
		case handoff.MountOverlay:
			s += " " + m.Src
		case handoff.MountSymlink:
			s += " " + m.Text
		}
		all = append(all, s)
	}
	return strings.Join(all, "+")
}

// want holds pairs of a path and what at says of it.
func (r run) want(pairs ...string) {
	r.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := r.at(pairs[i]); got != pairs[i+1] {
			r.t.Errorf("at %s: %q, want %q", pairs[i], got, pairs[i+1])
		}
	}
}

// keepsAbsent holds what has to be removed after the run.
func (r run) keepsAbsent(paths ...string) {
	r.t.Helper()
	for _, p := range paths {
		if !slices.Contains(r.KeepAbsent, p) {
			r.t.Errorf("%s isn't kept absent: %q", p, r.KeepAbsent)
		}
	}
}

func (r run) text(p string) string {
	for _, m := range r.Mounts {
		if m.Dst == p && m.Kind == handoff.MountFile {
			return m.Text
		}
	}
	return ""
}

// sees says whether a file of the host's can be reached through the table.
func (r run) sees(outside string) bool {
	for _, m := range r.Mounts {
		if (m.Kind != handoff.MountBind && m.Kind != handoff.MountOverlay) || !hostfs.Under(outside, m.Src) {
			continue
		}
		inside := hostfs.Rebase(outside, m.Src, m.Dst)
		hidden := false
		for _, n := range r.Mounts {
			if n.Dst != m.Dst && hostfs.Under(inside, n.Dst) && len(n.Dst) > len(m.Dst) && (n.Kind == handoff.MountMask || n.Kind == handoff.MountScratch) {
				hidden = true
			}
		}
		if !hidden {
			return true
		}
	}
	return false
}

func wellFormed(t testing.TB, table *Table) {
	t.Helper()
	if err := malformed(table); err != nil {
		t.Errorf("%v", err)
	}
}

// malformed checks what holds of every table.
func malformed(table *Table) error {
	for i, m := range table.Mounts {
		if m.Dst == "/" || !cleanAbsolute(m.Dst) {
			return fmt.Errorf("Dst %q is not clean", m.Dst)
		}
		isBind := m.Kind == handoff.MountBind || m.Kind == handoff.MountOverlay
		if isBind && (!cleanAbsolute(m.Src) || m.Ino == 0) {
			return fmt.Errorf("%s: source %q, inode %d", m.Dst, m.Src, m.Ino)
		}
		for _, later := range table.Mounts[i+1:] {
			if hostfs.Below(m.Dst, later.Dst) && later.Kind != handoff.MountBeneath {
				return fmt.Errorf("%s stands before its parent %s", m.Dst, later.Dst)
			}
			if later.Dst == m.Dst && order(later.Kind) <= order(m.Kind) {
				return fmt.Errorf("two entries at %s: %s, %s", m.Dst, kindNames[m.Kind], kindNames[later.Kind])
			}
		}
	}
	for i := 1; i < len(table.Rules); i++ {
		if hostfs.ComparePaths(table.Rules[i-1].Path, table.Rules[i].Path) > 0 {
			return fmt.Errorf("rules are not sorted at %s", table.Rules[i].Path)
		}
	}
	for _, p := range append(table.KeepAbsent, table.Dir) {
		if !cleanAbsolute(p) {
			return fmt.Errorf("%q is not clean", p)
		}
	}
	return nil
}
