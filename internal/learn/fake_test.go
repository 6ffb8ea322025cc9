package learn

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/hostfs"
)

// fakeHost is a tree: "/a/b/" a directory, "/a/b" a file, "/a/l -> /x" a link, and
// "/a/b = text" a file that holds something.
type fakeHost map[string]node

var _ hostfs.Host = fakeHost{} // as the real one is

type node struct {
	mode fs.FileMode
	text string // what it holds, or where it leads to
}

func tree(lines ...string) fakeHost {
	h := fakeHost{"/": {mode: fs.ModeDir}}
	for _, line := range lines {
		name, to, isLink := strings.Cut(line, " -> ")
		name, text, _ := strings.Cut(name, " = ")
		n := node{text: text}
		switch {
		case isLink:
			n = node{fs.ModeSymlink, to}
		case strings.HasSuffix(name, "/"):
			n.mode, name = fs.ModeDir, strings.TrimSuffix(name, "/")
		}
		h[name] = n
		for up := path.Dir(name); up != "/"; up = path.Dir(up) {
			if _, found := h[up]; !found {
				h[up] = node{mode: fs.ModeDir}
			}
		}
	}
	return h
}

func (h fakeHost) walk(name string, last bool, hops int) (string, error) {
	cur := "/"
	parts := strings.Split(strings.Trim(name, "/"), "/")
	for i, p := range parts {
		if p == "" {
			continue
		}
		next := path.Join(cur, p)
		n, found := h[next]
		switch {
		case !found || hops > 20:
			return "", fs.ErrNotExist
		case n.mode == fs.ModeSymlink && (i < len(parts)-1 || last):
			to := n.text
			if !path.IsAbs(to) {
				to = path.Join(cur, to)
			}
			real, err := h.walk(to, true, hops+1)
			if err != nil {
				return "", err
			}
			next = real
		}
		cur = next
	}
	return cur, nil
}

func (h fakeHost) file(name string, follow bool) (hostfs.File, error) {
	at, err := h.walk(name, follow, 0)
	if err != nil {
		return hostfs.File{}, err
	}
	return hostfs.File{Path: at, Mode: h[at].mode}, nil
}

func (h fakeHost) Resolve(name string) (hostfs.File, error) { return h.file(name, true) }
func (h fakeHost) Lstat(name string) (hostfs.File, error)   { return h.file(name, false) }

func (h fakeHost) Readlink(name string) (string, error) {
	f, err := h.Lstat(name)
	if err != nil || f.Mode != fs.ModeSymlink {
		return "", fs.ErrInvalid
	}
	return h[f.Path].text, nil
}

func (h fakeHost) Held(string) bool                  { return false }
func (h fakeHost) Sockets() ([]hostfs.Socket, error) { return nil, fs.ErrPermission }

func (h fakeHost) ReadFile(name string, _ int) (string, error) {
	f, err := h.Resolve(name)
	return h[f.Path].text, err
}

// As and ReadDir are for nobody here.
func (h fakeHost) As(uint32, uint32) (func(), bool, error) { return func() {}, false, nil }
func (h fakeHost) ReadDir(string) ([]hostfs.Entry, error)  { return nil, fs.ErrInvalid }

// world is one in which strict shows /usr, and has private places.
func world(h fakeHost) *World {
	return &World{
		Dir: "/work/p", Home: "/home/u", Path: []string{"/usr/bin", "/opt/tools/bin"}, Out: "/work/p", Temp: []string{"/tmp", "/var/tmp"}, Host: h,
		Secret: Secrets(h, "/home/u"), Readable: func(p string) bool { return !strings.Contains(p, "/shut") }, Writable: func(p string) bool { return !strings.Contains(p, "/shut") },
		Base: func(p string, w Op) Given {
			real, err := h.walk(p, true, 0)
			switch {
			case hostfs.Under(p, "/usr") && (err != nil || hostfs.Under(real, "/usr")), p == "/", p == "/etc" || hostfs.Under(p, "/dev/null") || hostfs.Under(p, "/proc/self"):
				return Given{Yes: w != Write && w != Create || p == "/dev/null"}
			case p == "/home/u" || p == "/tmp":
				return Given{Yes: true, Private: true}
			}
			return Given{}
		},
	}
}

// accesses reads lines: "WISH PATH [FLAG…] [by COMM]". What the tree has exists.
func accesses(t *testing.T, h fakeHost, text string) (all []Access) {
	t.Helper()
	var r Recorder
	made := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		what, comm, _ := strings.Cut(line, " by ")
		fields := strings.Fields(what)
		a := Access{Op: Op(fields[0]), Path: fields[1], Comm: comm}
		_, err := h.file(a.Path, a.Op != Create && a.Op != Remove)
		a.Exists = err == nil || made[a.Path]
		for _, flag := range fields[2:] {
			switch flag {
			case "rename":
				a.Replaces = true
			case "gone":
				a.Exists = false
			case "readonly":
				a.ReadOnly = true
			case "relative":
				a.Relative = true
			default:
				t.Fatalf("no flag %s", flag)
			}
		}
		if a.Op == Create {
			made[a.Path] = true
		}
		r.Add(a)
	}
	all, _ = r.Accesses()
	return all
}
