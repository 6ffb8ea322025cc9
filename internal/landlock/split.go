package landlock

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hostfs"
)

// Bounds on what is allowed name by name, beside something hidden or protected.
// Beyond, the names are left out: what decides how many there are may be a former
// target, and must not open anything with that.
const (
	maxEntries = 512  // of one directory
	maxRules   = 2048 // of all
)

// node is a path of the caller's whose rights the table says.
type node struct {
	file     hostfs.File
	rights   uint64 // below it, unless another node says otherwise
	optional bool
}

// splitter makes rules that only allow from a table that also takes away.
type splitter struct {
	host    hostfs.Host
	ruleset *Ruleset
	at      map[string]*node
	keys    []string // of the nodes, sorted: what is below a path stands together
	nodes   []*node  // likewise
	ownEtc  bool
}

// place notes what one entry says. They come with directories before
// what is in them, and with what shows before what takes away.
func (s *splitter) place(p *place) {
	switch p.kind {
	case tree, overlay:
		s.placeTree(p)
	case private:
		s.ruleset.limit(Private, p.dst)
		s.placeLess(p.dst, 0)
	case sized:
		s.ruleset.limit(Sized, p.dst)
		s.placeLess(p.dst, 0)
	case processes:
		s.ruleset.limit(Proc, p.dst)
		s.placeHost(p.dst, procRead)
	case ownFile:
		// A file of the run's own elsewhere: here only what that stands for is there.
		if hostfs.Under(p.dst, "/etc") {
			if !s.ownEtc {
				s.ownEtc = true
				s.ruleset.limit(OwnEtc, "/etc")
			}
			s.ruleset.limit(OwnEtc, p.dst)
			s.placeHost(p.dst, ReadFile)
		}
	case hidden:
		if hostfs.Under(p.dst, "/proc") {
			s.ruleset.limit(Proc, p.dst)
			return
		}
		s.placeLess(p.dst, 0)
	case restricted:
		if !hostfs.Under(p.dst, "/proc") { // there nothing is writable
			s.placeLess(p.dst, s.around(p.dst)&read)
		}
	}
}

// placeTree notes what is shown of the caller's.
func (s *splitter) placeTree(p *place) {
	if p.dst != p.src.Path {
		// A protected link shows a copy of what it leads to, which has its own entry.
		if f, err := s.host.Lstat(p.dst); err != nil || f.Mode.Type() != fs.ModeSymlink {
			s.ruleset.limit(Elsewhere, p.dst)
		}
		s.placeLess(p.dst, 0)
		return
	}
	f, err := s.host.Lstat(p.src.Path)
	if err != nil {
		f.Mode = fs.ModeDir // the child will say what is wrong with it
	}
	f.Path, f.Dev, f.Ino = p.src.Path, p.src.Dev, p.src.Ino
	rights := p.rights(f.Mode)
	if p.kind == overlay {
		s.ruleset.limit(Overlay, p.dst)
		rights = read
	}
	s.at[p.dst] = &node{f, rights, p.optional}
}

// rights are those to a tree that is shown.
func (p *place) rights(mode fs.FileMode) uint64 {
	switch {
	case p.device:
		return device
	case mode.Type() == fs.ModeNamedPipe:
		return fifo // a read-only mount lets data through, both ways
	case mode.Type() == fs.ModeSocket:
		return read | ResolveUnix // of which reading is what stands around it
	case p.readOnly:
		return read
	}
	return write
}

// placeHost notes that what the host has at a path can be read. It may be a link.
func (s *splitter) placeHost(name string, rights uint64) {
	f, err := s.host.Resolve(name)
	if err != nil || s.at[f.Path] != nil || !f.Mode.IsDir() && !f.Mode.IsRegular() {
		return
	}
	s.at[f.Path] = &node{f, rights, true}
}

// placeLess notes that less is allowed at a path than around it, if it is there.
func (s *splitter) placeLess(at string, rights uint64) {
	f, err := s.host.Lstat(at)
	if err != nil {
		if hostfs.Absent(err) {
			return
		}
		f = hostfs.File{Path: at, Mode: fs.ModeDir} // out of reach now, and maybe not later
		rights = 0
	}
	s.at[at] = &node{f, rights, true}
}

// around are the rights that the table gives at a path so far.
func (s *splitter) around(at string) uint64 {
	for ; ; at = path.Dir(at) {
		if n := s.at[at]; n != nil {
			return n.rights
		}
		if at == "/" {
			return 0
		}
	}
}

// grantAll makes the rules.
func (s *splitter) grantAll() {
	for _, n := range s.at {
		n.rights &= s.ruleset.HandledFS
		s.nodes = append(s.nodes, n)
	}
	slices.SortFunc(s.nodes, func(a, b *node) int { return strings.Compare(key(a.file.Path), key(b.file.Path)) })
	for _, n := range s.nodes {
		s.keys = append(s.keys, key(n.file.Path))
	}
	for _, n := range s.nodes {
		s.grant(n.file, n.rights, n.optional)
	}
}

// grant allows rights at and below f, but for what the nodes below say.
func (s *splitter) grant(f hostfs.File, rights uint64, optional bool) {
	common := rights
	for _, n := range s.below(f.Path) {
		common &= n.allows(rights)
	}
	if common == rights {
		s.rule(f, rights, optional)
		return
	}
	s.rule(f, common, optional)
	if common&ReadDir == 0 && rights&ReadDir != 0 {
		s.ruleset.limit(Unlisted, f.Path)
	}
	if common&MakeReg == 0 && rights&MakeReg != 0 {
		s.ruleset.limit(NoNewNames, f.Path)
		s.immutable(f.Path, rights)
	}
	entries, err := s.host.ReadDir(f.Path)
	if err != nil || len(entries) > maxEntries || len(s.ruleset.Rules)+len(entries) > maxRules {
		s.ruleset.limit(LeftOut, f.Path)
		return
	}
	for _, e := range entries {
		at := path.Join(f.Path, e.Name)
		if s.at[at] != nil {
			continue // on its own
		}
		// What a link leads to has, or hasn't, a rule of its own.
		if beside, err := s.host.Lstat(at); err == nil && beside.Mode.Type()&(fs.ModeSymlink|fs.ModeSocket) == 0 {
			s.grant(beside, rights, true)
		}
	}
}

// immutable notes because of what nothing can be made in a directory.
func (s *splitter) immutable(dir string, rights uint64) {
	d := ImmutableDir{Dir: dir}
	for _, n := range s.below(dir) {
		if n.allows(rights)&MakeReg == 0 {
			d.For = append(d.For, n.file.Path)
		}
	}
	s.ruleset.Immutable = append(s.ruleset.Immutable, d)
}

// allows are the rights that may be inherited by n where others are given around it.
func (n *node) allows(rights uint64) uint64 {
	mode := n.file.Mode
	switch {
	case mode.IsDir():
		return n.rights
	case mode.Type() == fs.ModeSymlink:
		return read // it must stay, and can be followed
	case rights&ofFiles&^n.rights == 0:
		return rights
	}
	return n.rights | ReadDir // of which it has no use
}

// rule adds one, with no more than what it is about can have.
func (s *splitter) rule(f hostfs.File, rights uint64, optional bool) {
	if !f.Mode.IsDir() {
		rights &= ofFiles
	}
	if f.Mode.Type() == fs.ModeSocket {
		rights &= ResolveUnix
	}
	if rights == 0 || f.Mode.Type() == fs.ModeSymlink {
		return
	}
	s.ruleset.Rules = append(s.ruleset.Rules, handoff.LandlockRule{
		Path: f.Path, Dev: f.Dev, Ino: f.Ino, Access: rights, Optional: optional,
	})
}

// below are the nodes below a path.
func (s *splitter) below(at string) []*node {
	first := key(at) + "\x00"
	i, _ := slices.BinarySearch(s.keys, first)
	j := i
	for j < len(s.keys) && strings.HasPrefix(s.keys[j], first) {
		j++
	}
	return s.nodes[i:j]
}

// key sorts a directory before what is in it, and that before its siblings.
func key(p string) string {
	return strings.ReplaceAll(strings.TrimSuffix(p, "/"), "/", "\x00")
}
