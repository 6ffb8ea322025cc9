// Package hosttest has a file system in memory for tests of what is decided by [hostfs.Host].
package hosttest

import (
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
	"syscall"
	"testing"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/view"
)

// Host is a file system in memory. It resolves as the kernel does.
type Host struct {
	Nodes map[string]*Node
	next  uint64
	Calls int
	// Other: the table is made for a user who can't enter what is shut.
	Other bool
	Stuck bool // what is mounted can't be taken off
	// Bound is what the kernel tells of them; nil is that it doesn't.
	Bound []hostfs.Socket
	Lists int // of directories
}

type Node struct {
	Ino      uint64
	Mode     fs.FileMode
	Text     string // of a file, or the target of a link
	Shut     bool   // nobody but root can enter it
	Unlisted bool   // nobody can list it
	// Names is how many it has; 0 is one.
	Names uint64
}

// New makes a host of lines: "/dir/", "/file=text", "/link -> target",
// "/dir/!" for a directory that only root can enter, "/prog*" for an
// executable, and "/socket|", "/fifo%", "/device#".
func New(t testing.TB, lines ...string) *Host {
	t.Helper()
	h := &Host{Nodes: map[string]*Node{"/": {Ino: 1, Mode: fs.ModeDir | 0o755}}, next: 2}
	for _, l := range lines {
		if at, target, ok := strings.Cut(l, " -> "); ok {
			h.Put(at, fs.ModeSymlink|0o777, target)
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
		h.Put(at, mode, text).Shut = last == "!"
	}
	return h
}

func (h *Host) Put(at string, mode fs.FileMode, text string) *Node {
	if at == "" || at == "/" {
		return h.Nodes["/"]
	}
	if up := path.Dir(at); h.Nodes[up] == nil {
		h.Put(up, fs.ModeDir|0o755, "")
	}
	h.Nodes[at] = &Node{Ino: h.next, Mode: mode, Text: text}
	h.next++
	return h.Nodes[at]
}

func (h *Host) As(uid, gid uint32) (func(), bool, error) { return func() {}, h.Other, nil }

// Walk resolves name; the last component only when follow.
func (h *Host) Walk(name string, follow bool) (string, *Node, error) {
	h.Calls++
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
		if !h.Nodes[at].Mode.IsDir() {
			return "", nil, syscall.ENOTDIR
		}
		if comp == "" || comp == "." {
			continue
		}
		if h.Nodes[at].Shut && h.Other {
			return "", nil, syscall.EACCES
		}
		if comp == ".." {
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, comp)
		n := h.Nodes[next]
		if n == nil {
			return "", nil, syscall.ENOENT
		}
		if n.Mode.Type() == fs.ModeSymlink && (follow || more) {
			if links++; links > 40 {
				return "", nil, syscall.ELOOP
			}
			if path.IsAbs(n.Text) {
				at = "/"
			}
			if rest = n.Text + "/" + rest; !more {
				rest = n.Text
			}
			continue
		}
		at = next
		if more && !n.Mode.IsDir() {
			return "", nil, syscall.ENOTDIR
		}
	}
	return at, h.Nodes[at], nil
}

func (h *Host) Resolve(name string) (hostfs.File, error) {
	at, n, err := h.Walk(name, true)
	if err != nil {
		return hostfs.File{}, err
	}
	return hostfs.File{Path: at, Dev: 7, Ino: n.Ino, Mode: n.Mode}, nil
}

func (h *Host) Lstat(name string) (hostfs.File, error) {
	_, n, err := h.Walk(name, false)
	if err != nil {
		return hostfs.File{}, err
	}
	return hostfs.File{Path: name, Dev: 7, Ino: n.Ino, Mode: n.Mode, Names: max(n.Names, 1)}, nil
}

func (h *Host) Readlink(name string) (string, error) {
	_, n, err := h.Walk(name, false)
	if err != nil {
		return "", err
	}
	if n.Mode.Type() != fs.ModeSymlink {
		return "", syscall.EINVAL
	}
	return n.Text, nil
}

func (h *Host) ReadDir(name string) ([]hostfs.Entry, error) {
	h.Lists++
	at, n, err := h.Walk(name, true)
	if err != nil {
		return nil, err
	}
	if !n.Mode.IsDir() {
		return nil, syscall.ENOTDIR
	}
	if n.Shut && h.Other || n.Unlisted {
		return nil, syscall.EACCES
	}
	var entries []hostfs.Entry
	for p, x := range h.Nodes {
		if p != "/" && path.Dir(p) == at {
			entries = append(entries, hostfs.Entry{Name: path.Base(p), Type: x.Mode.Type()})
		}
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name < entries[j].Name })
	return entries, nil
}

func (h *Host) Sockets() ([]hostfs.Socket, error) {
	if h.Bound == nil {
		return nil, syscall.ENOENT
	}
	return h.Bound, nil
}

func (h *Host) ReadFile(name string, limit int) (string, error) {
	_, n, err := h.Walk(name, true)
	switch {
	case err != nil:
		return "", err
	case !n.Mode.IsRegular():
		return "", syscall.EINVAL
	case len(n.Text) > limit:
		return "", syscall.EFBIG
	}
	return n.Text, nil
}

func (h *Host) Held(string) bool { return h.Stuck }

// Mountinfo is a table of what is mounted on /.
func Mountinfo(points ...string) string {
	text := "20 1 8:1 / / rw - ext4 /dev/a rw\n"
	for i, p := range points {
		text += fmt.Sprintf("%d 20 0:%d / %s rw - tmpfs none rw\n", 21+i, 50+i, p)
	}
	return text
}

// Inspect: everything is uid 1000's, but for what only root can enter.
func (h *Host) Inspect(name string) (hostfs.Inode, error) {
	f, err := h.Lstat(name)
	return hostfs.Inode{File: f, UID: 1000, GID: 1000}, err
}

// debian is what every test host has.
var debian = []string{
	"/usr/bin/true*", "/usr/bin/python3*", "/usr/local/bin/", "/usr/sbin/", "/usr/lib64/",
	"/bin -> usr/bin", "/sbin -> usr/sbin", "/lib -> usr/lib", "/lib64 -> usr/lib64", "/usr/lib/os-release=x",
	"/etc/shadow=secret", "/etc/machine-id=1", "/etc/ssl/certs/", "/etc/ssl/private/key=secret",
	"/etc/ld.so.cache=x", "/etc/alternatives/", "/etc/localtime -> /usr/share/zoneinfo/UTC", "/etc/gitconfig=token",
	"/etc/resolv.conf=nameserver 10.0.0.1\n", "/etc/hosts=10.0.0.2 printer\n",
	"/proc/self/net/unix=", "/dev/null#", "/dev/zero#", "/dev/full#", "/dev/random#", "/dev/urandom#", "/dev/tty#", "/dev/kvm#",
	"/proc/sys/", "/sys/class/", "/tmp/", "/var/tmp/", "/run/docker.sock|", "/home/u/.ssh/id=secret",
	"/home/u/p/src/a=1", "/root/!", "/root/.pyenv/shims/",
}

// Debian is a host as most are, with further lines.
func Debian(t testing.TB, extra ...string) *Host {
	return New(t, append(append([]string{}, debian...), extra...)...)
}

// Input is that of a plain run by an ordinary user in ~/p of Debian.
func Input(h hostfs.Host, change func(*view.Input)) view.Input {
	env := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}
	in := view.Input{Filesystem: view.Filesystem{Workdir: "ro", TempDir: true}, Host: h, Caller: view.Caller{Dir: "/home/u/p", HomeDir: "/home/u", UserName: "u",
		UID: 1000, GID: 1000, AccessUID: 1000, AccessGID: 1000, Command: "true", Env: func(k string) string { return env[k] }}}
	if change != nil {
		change(&in)
	}
	return in
}

// macOS is what a host of that has.
var macOS = []string{
	"/System/Library/Frameworks/x=1", "/System/Volumes/Data/Users/u/.ssh/id=secret", "/bin/sh*", "/usr/bin/true*", "/usr/lib/dyld*", "/usr/share/zoneinfo/UTC=x", "/usr/local/bin/",
	"/usr/local/var/postgres/base=secret", "/opt/homebrew/bin/", "/opt/homebrew/var/mysql/base=secret", "/opt/homebrew/Cellar/git/2/bin/git*",
	"/opt/homebrew/bin/git -> ../Cellar/git/2/bin/git", "/tmp -> private/tmp", "/var -> private/var", "/etc -> private/etc", "/private/tmp/other=secret",
	"/private/var/tmp/", "/private/var/folders/ab/cd/T/", "/private/etc/hosts=x", "/private/etc/passwd=x", "/private/etc/master.passwd=secret",
	"/private/etc/localtime -> /var/db/timezone/zoneinfo/UTC", "/private/var/db/timezone/zoneinfo/UTC=x", "/Library/Keychains/System.keychain=secret",
	"/Library/Developer/CommandLineTools/usr/bin/git*", "/dev/null#", "/dev/disk0#", "/Users/u/.ssh/id=secret", "/Users/u/p/src/a=1",
	"/Users/u/Library/Keychains/login.keychain-db=secret", "/Users/u/Library/Python/3.9/bin/x*", "/Users/u/Documents/d=1", "/Users/v/d=secret", "/Volumes/Other/d=secret",
}

// MacOS is a host of that, with further lines.
func MacOS(t testing.TB, extra ...string) *Host {
	return New(t, append(append([]string{}, macOS...), extra...)...)
}

// MacInput is that of a plain run by an ordinary user in ~/p of MacOS.
func MacInput(h hostfs.Host, change func(*view.Input)) view.Input {
	return Input(h, func(in *view.Input) {
		in.Dir, in.HomeDir, in.UID, in.AccessUID, in.GID, in.AccessGID, in.Bare, in.MacOS = "/Users/u/p", "/Users/u", 501, 501, 20, 20, true, true
		in.Env = func(k string) string { return map[string]string{"PATH": "/opt/homebrew/bin:/usr/bin:/bin"}[k] }
		if change != nil {
			change(in)
		}
	})
}
