package rootfs

import (
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
	"syscall"
	"testing"
)

// fakeHost is a file system in memory. It resolves as the kernel does.
type fakeHost struct {
	nodes map[string]*fakeNode
	next  uint64
	calls int
	// other: the table is made for a user who can't enter what is shut.
	other bool
	held  bool // what is mounted can't be taken off
	// sockets is what the kernel tells of them; nil is that it doesn't.
	sockets []Socket
	lists   int // of directories
}

type fakeNode struct {
	ino  uint64
	mode fs.FileMode
	text string // of a file, or the target of a link
	shut bool   // nobody but root can enter it
	// names is how many it has; 0 is one.
	names uint64
}

// newFake makes a host of lines: "/dir/", "/file=text", "/link -> target",
// "/dir/!" for a directory that only root can enter, "/prog*" for an
// executable, and "/socket|", "/fifo%", "/device#".
func newFake(t testing.TB, lines ...string) *fakeHost {
	t.Helper()
	h := &fakeHost{nodes: map[string]*fakeNode{"/": {ino: 1, mode: fs.ModeDir | 0o755}}, next: 2}
	for _, l := range lines {
		if at, target, ok := strings.Cut(l, " -> "); ok {
			h.put(at, fs.ModeSymlink|0o777, target)
			continue
		}
		at, text, _ := strings.Cut(l, "=")
		last := at[len(at)-1:]
		mode, isSpecial := map[string]fs.FileMode{"/": fs.ModeDir | 0o755, "!": fs.ModeDir | 0o700, "*": 0o755,
			"|": fs.ModeSocket | 0o755, "%": fs.ModeNamedPipe | 0o644, "#": fs.ModeDevice | fs.ModeCharDevice | 0o666}[last]
		if isSpecial {
			at = strings.TrimSuffix(strings.TrimSuffix(at, last), "/")
		} else {
			mode = 0o644
		}
		h.put(at, mode, text).shut = last == "!"
	}
	return h
}

func (h *fakeHost) put(at string, mode fs.FileMode, text string) *fakeNode {
	if at == "" || at == "/" {
		return h.nodes["/"]
	}
	if up := path.Dir(at); h.nodes[up] == nil {
		h.put(up, fs.ModeDir|0o755, "")
	}
	h.nodes[at] = &fakeNode{ino: h.next, mode: mode, text: text}
	h.next++
	return h.nodes[at]
}

func (h *fakeHost) As(uid, gid uint32) (func(), bool, error) { return func() {}, h.other, nil }

// walk resolves name; the last component only when follow.
func (h *fakeHost) walk(name string, follow bool) (string, *fakeNode, error) {
	h.calls++
	if strings.IndexByte(name, 0) >= 0 {
		return "", nil, syscall.EINVAL
	}
	if len(path.Base(name)) > 255 {
		return "", nil, syscall.ENAMETOOLONG
	}
	if !path.IsAbs(name) {
		return "", nil, fmt.Errorf("relative path %q asked of the host", name)
	}
	at, rest, links := "/", name, 0
	for rest != "" {
		var comp string
		var more bool
		comp, rest, more = strings.Cut(rest, "/")
		if !h.nodes[at].mode.IsDir() {
			return "", nil, syscall.ENOTDIR
		}
		if comp == "" || comp == "." {
			continue
		}
		if h.nodes[at].shut && h.other {
			return "", nil, syscall.EACCES
		}
		if comp == ".." {
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, comp)
		n := h.nodes[next]
		if n == nil {
			return "", nil, syscall.ENOENT
		}
		if n.mode.Type() == fs.ModeSymlink && (follow || more) {
			if links++; links > 40 {
				return "", nil, syscall.ELOOP
			}
			if path.IsAbs(n.text) {
				at = "/"
			}
			if rest = n.text + "/" + rest; !more {
				rest = n.text
			}
			continue
		}
		at = next
		if more && !n.mode.IsDir() {
			return "", nil, syscall.ENOTDIR
		}
	}
	return at, h.nodes[at], nil
}

func (h *fakeHost) Resolve(name string) (File, error) {
	at, n, err := h.walk(name, true)
	if err != nil {
		return File{}, err
	}
	return File{Path: at, Dev: 7, Ino: n.ino, Mode: n.mode}, nil
}

func (h *fakeHost) Lstat(name string) (File, error) {
	_, n, err := h.walk(name, false)
	if err != nil {
		return File{}, err
	}
	return File{Path: name, Dev: 7, Ino: n.ino, Mode: n.mode, Names: max(n.names, 1)}, nil
}

func (h *fakeHost) Readlink(name string) (string, error) {
	_, n, err := h.walk(name, false)
	if err != nil {
		return "", err
	}
	if n.mode.Type() != fs.ModeSymlink {
		return "", syscall.EINVAL
	}
	return n.text, nil
}

func (h *fakeHost) ReadDir(name string) ([]Entry, error) {
	h.lists++
	at, n, err := h.walk(name, true)
	if err != nil {
		return nil, err
	}
	if !n.mode.IsDir() {
		return nil, syscall.ENOTDIR
	}
	if n.shut && h.other {
		return nil, syscall.EACCES
	}
	var entries []Entry
	for p, x := range h.nodes {
		if p != "/" && path.Dir(p) == at {
			entries = append(entries, Entry{path.Base(p), x.mode.Type()})
		}
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name < entries[j].Name })
	return entries, nil
}

func (h *fakeHost) Sockets() ([]Socket, error) {
	if h.sockets == nil {
		return nil, syscall.ENOENT
	}
	return h.sockets, nil
}

func (h *fakeHost) ReadFile(name string, limit int) (string, error) {
	_, n, err := h.walk(name, true)
	switch {
	case err != nil:
		return "", err
	case !n.mode.IsRegular():
		return "", syscall.EINVAL
	case len(n.text) > limit:
		return "", syscall.EFBIG
	}
	return n.text, nil
}

func (h *fakeHost) Held(string) bool { return h.held }

// mountinfo is a table of what is mounted on /.
func mountinfo(points ...string) string {
	text := "20 1 8:1 / / rw - ext4 /dev/a rw\n"
	for i, p := range points {
		text += fmt.Sprintf("%d 20 0:%d / %s rw - tmpfs none rw\n", 21+i, 50+i, p)
	}
	return text
}
