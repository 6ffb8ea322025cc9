package rootfs

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/explain"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/view"
)

func etcOf(t *testing.T, h hostfs.Host, change func(*view.Input)) run {
	return compile(t, h, func(in *view.Input) {
		in.Etc = true
		if change != nil {
			change(in)
		}
	})
}

func TestWholeEtcLiesBeneathTheRunsOwn(t *testing.T) {
	h := hosttest.Debian(t, "/etc/app/conf=1", "/etc/apt/auth.conf=1")
	r := etcOf(t, h, nil)
	r.want("/etc", "beneath", "/etc/gitconfig", "absent", "/etc/ssl/private", "absent", "/etc/apt/auth.conf", "absent", "/etc/pip.conf", "")
	at := map[string]int{}
	for i, m := range r.Mounts {
		at[m.Dst] = i
		if m.Dst == "/etc/alternatives" && !m.Instead {
			t.Error("the chosen part is shown by itself, too")
		}
	}
	for _, own := range []string{"/etc/passwd", "/etc/resolv.conf", "/etc/machine-id", "/etc/gitconfig"} {
		if at[own] == 0 || at[own] > at["/etc"] {
			t.Errorf("%s comes after what it lies over", own)
		}
	}
	if at["/etc/alternatives"] < at["/etc"] {
		t.Error("what is instead comes before it is known whether it is needed")
	}
	if text := r.text("/etc/machine-id"); len(strings.TrimSpace(text)) != 32 {
		t.Errorf("machine-id: %q", text)
	}
}

func TestUIDZeroHasWholeEtcOnlyAsAStranger(t *testing.T) {
	root := func(in *view.Input) { in.UID, in.AccessUID = 0, 0 }
	etcOf(t, hosttest.Debian(t), root).want("/etc", "", "/etc/alternatives", "ro /etc/alternatives", "/etc/shadow", "")
	etcOf(t, hosttest.Debian(t), func(in *view.Input) { root(in); in.Stranger = 7 }).want("/etc", "beneath")
	etcOf(t, hosttest.Debian(t), func(in *view.Input) { in.Bare = true }).want("/etc", "", "/etc/alternatives", "ro /etc/alternatives")
}

func TestWhatIsNamedInEtcIsShown(t *testing.T) {
	h := hosttest.Debian(t, "/etc/docker/key=1", "/etc/docker/daemon.json=1", "/etc/app/conf=1", "/srv/x/")
	r := etcOf(t, h, func(in *view.Input) {
		in.AllowRead = []string{"/etc/shadow", "/etc/gitconfig", "/etc/docker/daemon.json"}
		in.Mounts = []view.Mount{{Src: "/srv/x", Dst: "/etc/new/place", Mode: "rw"}}
		in.Deny = []string{"/etc/app"}
	})
	r.want("/etc/shadow", "file+ro /etc/shadow", "/etc/gitconfig", "file+ro /etc/gitconfig", "/etc/docker", "scratch",
		"/etc/docker/daemon.json", "ro /etc/docker/daemon.json", "/etc/new/place", "dir+rw /srv/x", "/etc/app", "mask")
	if r.sees("/etc/docker/key") {
		t.Error("what lies beside what was named is shown")
	}
}

// The agreement of explain with what uid 0 finds.
func TestUIDZeroReadsOfEtcWhatEveryUserMay(t *testing.T) {
	h := hosttest.Debian(t, "/etc/open=1")
	r := etcOf(t, h, func(in *view.Input) { in.UID, in.AccessUID, in.Stranger = 0, 0, 7 })
	v := explain.New(r.View, explain.Viewer{UID: 0, Host: &inspecting{h, map[string]uint32{"/etc/shadow": 0o640, "/etc/open": 0o644}}})
	for at, want := range map[string]explain.Reason{"/etc/open": explain.Granted, "/etc/shadow": explain.Permissions, "/etc/passwd": explain.Granted,
		"/etc/gitconfig": explain.Hidden, "/etc/nothing": explain.Absent} {
		if s := v.Check(at, explain.Read); s.Reason != want {
			t.Errorf("%s: %s (%s)", at, s.Reason, s.Details)
		}
	}
	if s := v.Check("/etc/gitconfig", explain.Read); s.Rule.Access != view.RuleHidden {
		t.Errorf("no rule hides it: %+v", s.Rule)
	}
	less := explain.New(r.View, explain.Viewer{UID: 0, NoBeneath: true, Host: &inspecting{h, nil}})
	if s := less.Check("/etc/open", explain.Read); s.Granted {
		t.Error("without an overlay it is shown all the same")
	}
	if s := less.Check("/etc/ld.so.cache", explain.Read); !s.Granted {
		t.Errorf("the chosen part isn't shown: %s", s.Reason)
	}
}

// inspecting is a fake host whose files are all root's, of these modes or 0755.
type inspecting struct {
	hostfs.Host
	modes map[string]uint32
}

func (h *inspecting) Inspect(at string) (hostfs.Inode, error) {
	f, err := h.Lstat(at)
	n := hostfs.Inode{File: f}
	n.Mode = f.Mode.Type() | 0o755
	if m, ok := h.modes[at]; ok {
		n.Mode = f.Mode.Type() | fs.FileMode(m)
	}
	return n, err
}
