package landlock

import (
	"io/fs"
	"path"
	"sort"
	"strings"
	"syscall"
	"testing"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/view"
)

// fakeHost is a tree of names; links are of the form "/a -> /b".
type fakeHost struct {
	modes map[string]fs.FileMode
	links map[string]string
	shut  map[string]bool // can't be listed
	away  bool            // and what is in them can't be reached
}

// newFake takes "/dir/", "/file", "/link -> target", "/socket|", "/fifo%", "/device#".
func newFake(t testing.TB, lines ...string) *fakeHost {
	t.Helper()
	h := &fakeHost{modes: map[string]fs.FileMode{}, links: map[string]string{}, shut: map[string]bool{}}
	for _, l := range lines {
		if at, to, ok := strings.Cut(l, " -> "); ok {
			h.links[at] = to
			h.put(at, fs.ModeSymlink)
			continue
		}
		mode, ok := map[string]fs.FileMode{"/": fs.ModeDir, "|": fs.ModeSocket, "%": fs.ModeNamedPipe,
			"#": fs.ModeDevice | fs.ModeCharDevice}[l[len(l)-1:]]
		if ok {
			l = l[:len(l)-1]
		}
		h.put(l, mode)
	}
	return h
}

func (h *fakeHost) put(at string, mode fs.FileMode) {
	for up := at; up != "/"; {
		up = path.Dir(up)
		h.modes[up] = fs.ModeDir
	}
	if at != "" {
		h.modes[at] = mode
	}
}

func (h *fakeHost) As(uint32, uint32) (func(), bool, error) { return func() {}, false, nil }

func (h *fakeHost) Resolve(name string) (hostfs.File, error) {
	if to, ok := h.links[name]; ok {
		name = to
	}
	return h.Lstat(name)
}

func (h *fakeHost) Lstat(name string) (hostfs.File, error) {
	mode, ok := h.modes[name]
	if h.shut[path.Dir(name)] && path.Dir(name) != "/" && h.away {
		return hostfs.File{}, syscall.EACCES
	}
	if !ok {
		return hostfs.File{}, syscall.ENOENT
	}
	return hostfs.File{Path: name, Dev: 7, Ino: inode(name), Mode: mode}, nil
}

// inode is one for each name.
func inode(name string) (n uint64) {
	for i := range len(name) {
		n = n*31 + uint64(name[i])
	}
	return n + 1
}

func (h *fakeHost) Readlink(name string) (string, error) { return h.links[name], nil }

func (h *fakeHost) ReadDir(name string) (list []hostfs.Entry, err error) {
	if h.shut[name] {
		return nil, syscall.EACCES
	}
	for p, mode := range h.modes {
		if p != "/" && path.Dir(p) == name {
			list = append(list, hostfs.Entry{Name: path.Base(p), Type: mode.Type()})
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil
}

func (h *fakeHost) Sockets() ([]hostfs.Socket, error) { return nil, syscall.EACCES }

func (h *fakeHost) ReadFile(string, int) (string, error) { return "", syscall.EACCES }

func (h *fakeHost) Held(string) bool { return false }

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
		if rule.Path == "/" || under(at, rule.Path) {
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
