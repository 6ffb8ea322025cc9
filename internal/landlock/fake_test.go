package landlock

import (
	"io/fs"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/view"
)

// inode is one for each name.
func inode(name string) (n uint64) {
	for i := range len(name) {
		n = n*31 + uint64(name[i])
	}
	return n + 1
}

// Kinds that no rule is about.
const (
	link kind = 100 + iota
	pin
)

// bind shows what the host has at a path.
func bind(at string, readOnly bool) place {
	return place{kind: tree, dst: at, src: hostfs.File{Path: at, Dev: 7, Ino: inode(at)}, readOnly: readOnly}
}

func entry(k kind, at string) place { return place{kind: k, dst: at} }

// viewOf is the view that has these places.
func viewOf(all []place) *view.View {
	v := &view.View{}
	made := map[kind]view.Kind{ownFile: view.File, processes: view.Processes, terminals: view.Terminals, link: view.Link}
	for _, p := range all {
		g := view.Grant{Dst: p.dst, Src: p.src, Access: view.Write, Optional: p.optional}
		if p.readOnly {
			g.Access = view.Read
		}
		if p.device {
			g.Src.Mode |= fs.ModeDevice
		}
		switch p.kind {
		case overlay:
			g.Access = view.Overlay
		case sized:
			g.Access, g.Size = view.Private, 1
		case private:
			g.Access = view.Private
		case hidden:
			v.Hidden = append(v.Hidden, view.Hidden{Dst: p.dst})
			continue
		case restricted:
			v.Protected = append(v.Protected, view.Protected{Dst: p.dst, Keep: view.ReadOnly})
			continue
		case pin:
			v.Protected = append(v.Protected, view.Protected{Dst: p.dst, Keep: view.Pinned})
			continue
		case ownFile, processes, terminals, link:
			v.Made = append(v.Made, view.Made{Kind: made[p.kind], Dst: p.dst})
			continue
		}
		v.Grants = append(v.Grants, g)
	}
	return v
}

// rights are what the kernel would give at a path: those of all rules on the way.
func (r *Ruleset) rights(at string) (all uint64) {
	for _, rule := range r.Rules {
		if rule.Path == "/" || hostfs.Under(at, rule.Path) {
			all |= rule.Access
		}
	}
	return all
}

func (r *Ruleset) has(k Kind, at string) bool {
	for _, l := range r.Limits {
		if l == (Limit{k, at}) {
			return true
		}
	}
	return false
}
