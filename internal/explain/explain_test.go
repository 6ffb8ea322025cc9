package explain

import (
	"encoding/binary"
	"io/fs"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/rootfs"
	"github.com/confine-run/confine/internal/view"
)

// TestCheck is about what the table decides; what the kernel makes of modes, links and
// mounts is held against a real one in package integration.
func TestCheck(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/.env=1", "/home/u/p/.git/config=1", "/home/u/p/out/f=1", "/home/u/p/l -> src/a", "/home/u/p/loop -> loop",
		"/home/u/p/away -> /etc/shadow", "/home/u/p/s/pub/f=1", "/home/u/p/s/f=1", "/data/x=1", "/data/tool*")
	table, err := rootfs.Compile(hosttest.Input(h, func(in *view.Input) {
		in.AllowWrite = []string{"out"}
		in.AllowRead = []string{"s/pub"}
		in.Overlay = []string{"src"}
		in.Deny = []string{".env", "s"}
		in.Mounts = []view.Mount{{Src: "/data", Dst: "/mnt/d"}}
		in.Protect = []string{".envrc"}
	}))
	must.Do(t, err)
	v := New(table.View, Viewer{UID: 1000, GID: 1000, OneID: true, Host: h})
	for _, c := range []struct {
		path  string
		op    Op
		why   Reason
		at    string // inside
		rule  string // Rule.Path
		where string // outside
	}{
		{"/home/u/p", Read, Granted, "/home/u/p", "/home/u/p", "/home/u/p"},
		{"/home/u/p", Write, ReadOnly, "/home/u/p", "/home/u/p", "/home/u/p"},
		{"/home/u/p/new", Create, ReadOnly, "/home/u/p/new", "/home/u/p", "/home/u/p/new"},
		{"/home/u/p/src/a", Write, Granted, "/home/u/p/src/a", "/home/u/p/src", "/home/u/p/src/a"},
		{"/home/u/p/l", Read, Granted, "/home/u/p/src/a", "/home/u/p/src", "/home/u/p/src/a"},
		{"/home/u/p/l", Create, Kind, "/home/u/p/l", "/home/u/p", "/home/u/p/l"},
		{"/home/u/p/loop", Read, Loop, "/home/u/p/loop", "/home/u/p", "/home/u/p/loop"},
		{"/home/u/p/away", Read, Hidden, "/etc/shadow", "", ""},
		{"/home/u/p/out/new", Create, Granted, "/home/u/p/out/new", "/home/u/p/out", "/home/u/p/out/new"},
		{"/home/u/p/out/no/new", Create, Absent, "/home/u/p/out/no", "/home/u/p/out", "/home/u/p/out/no"},
		{"/home/u/p/.env", Read, Hidden, "/home/u/p/.env", "/home/u/p/.env", ""},
		{"/home/u/p/s/f", Read, Hidden, "/home/u/p/s/f", "/home/u/p/s", ""},
		{"/home/u/p/s/pub/f", Read, Granted, "/home/u/p/s/pub/f", "/home/u/p/s/pub", "/home/u/p/s/pub/f"},
		{"/mnt/d/x", Read, Granted, "/mnt/d/x", "/mnt/d", "/data/x"},
		{"/mnt/d/tool", Exec, Granted, "/mnt/d/tool", "/mnt/d", "/data/tool"},
		{"/mnt/d/x", Exec, Permissions, "/mnt/d/x", "/mnt/d", "/data/x"},
		{"/mnt/d/x/..", Read, Kind, "/mnt/d", "/mnt/d", ""},
		{"/mnt/d/../d/x", Read, Granted, "/mnt/d/x", "/mnt/d", "/data/x"},
		{"/mnt/e", Create, ReadOnly, "/mnt/e", "", ""},
		{"/data/x", Read, Hidden, "/data", "", ""},
		{"/tmp/x", Create, Granted, "/tmp/x", "/tmp", ""},
		{"/bin/true", Exec, Granted, "/usr/bin/true", "/usr", "/usr/bin/true"},
		{"/proc/1/mem", Read, Absent, "/proc/1", "/proc", ""},
		{"/proc/sys", Write, ReadOnly, "/proc/sys", "/proc", "/proc/sys"},
	} {
		s := v.Check(c.path, c.op)
		if s.Reason != c.why || s.Path != c.at || s.Granted != (c.why == Granted) {
			t.Errorf("%s %s: %+v, want %s at %s", c.op, c.path, s, c.why, c.at)
		}
		if s.Rule.Path != c.rule {
			t.Errorf("%s %s: by the rule %+v, want that of %q", c.op, c.path, s.Rule, c.rule)
		}
		if s.Granted && s.Source != c.where {
			t.Errorf("%s %s: from %q, want %q", c.op, c.path, s.Source, c.where)
		}
	}
}

// TestMeant: what a hint names is what was asked for, not where the walk ended.
func TestMeant(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/away -> /data/a", "/home/u/p/s/t/f=1", "/data/a/b/f=1", "/data/l -> a/b", "/other/c/g=1", "/data/up -> /other/c")
	table, err := rootfs.Compile(hosttest.Input(h, func(in *view.Input) { in.Deny = []string{"s"} }))
	must.Do(t, err)
	v := New(table.View, Viewer{UID: 1000, GID: 1000, OneID: true, Host: h})
	for _, c := range []struct {
		path  string
		op    Op
		why   Reason
		meant string
	}{
		{"/data/a/b/f", Read, Hidden, "/data/a/b/f"},
		{"/data/l/f", Read, Hidden, "/data/l/f"}, // the link is hidden, too, and shown with it
		{"/data/up/../c/./g/", Read, Hidden, "/other/c/g"},
		{"/data/up/../new", Create, Hidden, "/other/new"},
		{"/home/u/p/away/b/f", Write, Hidden, "/data/a/b/f"},
		{"/data/a/b/new", Create, Hidden, "/data/a/b/new"},
		{"/data/a/no/new", Create, Absent, "/data/a/no/new"},
		{"/data/a/no", Read, Absent, "/data/a/no"},
		{"/data/a/b/f/x", Read, Absent, "/data/a/b/f/x"},
		{"/home/u/p/s/t/f", Read, Hidden, "/home/u/p/s/t/f"}, // masked
		{"/home/u/p/away", Create, Kind, "/home/u/p/away"},
	} {
		if s := v.Check(c.path, c.op); s.Reason != c.why || s.Meant != c.meant {
			t.Errorf("%s %s: %+v, want %s and %s", c.op, c.path, s, c.why, c.meant)
		}
	}
}

// owned is a host on which some files are another's, or have ACLs.
type owned struct {
	*hosttest.Host
	of   map[string]uint32
	acls map[string][2][]byte // access, default
}

func (h owned) Inspect(name string) (hostfs.Inode, error) {
	n, err := h.Host.Inspect(name)
	if id, ok := h.of[name]; ok {
		n.UID, n.GID, n.Mode = id, id, n.Mode|0o777
	}
	n.ACL, n.DefaultACL = h.acls[name][0], h.acls[name][1]
	return n, err
}

// TestWhatAnOverlayCantCopy: the object of another, or with an ACL that names one, and all
// that is in such a directory. What decided is named.
func TestWhatAnOverlayCantCopy(t *testing.T) {
	names := func(tag, id uint32) []byte {
		return acl([3]uint32{0x01, 7}, [3]uint32{tag, 7, id}, [3]uint32{aclGroupObj, 7}, [3]uint32{aclMask, 7}, [3]uint32{aclOther, 7})
	}
	const p = "/home/u/p/"
	h := owned{hosttest.Debian(t, p+"d/own=1", p+"d/m/own=1", p+"user=1", p+"group=1", p+"me=1", p+"def/sub/f=1", p+"acc/f=1", p+"src/a=1"),
		map[string]uint32{p + "d": 7},
		map[string][2][]byte{p + "user": {names(aclUser, 8)}, p + "group": {names(aclGroup, 9)}, p + "me": {names(aclUser, 1000)},
			p + "def": {nil, names(aclUser, 8)}, p + "acc": {names(aclGroup, 9)}}}
	see := func(by Viewer, name string, w Op, workdir string) Decision {
		t.Helper()
		table, err := rootfs.Compile(hosttest.Input(h, func(in *view.Input) { in.Workdir = workdir }))
		must.Do(t, err)
		by.UID, by.GID, by.Host = 1000, 1000, h
		return New(table.View, by).Check(p+name, w)
	}
	for _, c := range []struct {
		name    string
		op      Op
		why     Reason
		at      string
		details string
	}{
		{"src/a", Write, Granted, "src/a", ""},
		{"me", Write, Granted, "me", ""},
		{"d/own", Read, Granted, "d/own", ""},
		{"d/own", Write, Owner, "d", "uid 7"},
		{"d/m/own", Write, Owner, "d", "uid 7"},
		{"d/m/q", Create, Owner, "d", "uid 7"},
		{"d/q", Create, Owner, "d", "uid 7"},
		{"d/q", Write, Absent, "d/q", "nor can it be made: owner at /home/u/p/d: "},
		{"src/q", Write, Absent, "src/q", ""},
		{"d/q", Read, Absent, "d/q", ""},
		{"user", Read, Granted, "user", ""},
		{"user", Write, Owner, "user", "an ACL that names uid 8"},
		{"group", Write, Owner, "group", "an ACL that names gid 9"},
		{"def/new", Create, Owner, "def", "default ACL that names uid 8"},
		{"def/sub/f", Write, Owner, "def", "default ACL that names uid 8"},
		{"acc/f", Write, Owner, "acc", "an ACL that names gid 9"},
	} {
		s := see(Viewer{OneID: true}, c.name, c.op, "overlay")
		if s.Reason != c.why || s.At != p+c.at || s.Granted != (c.why == Granted) || !strings.Contains(s.Details, c.details) || c.details == "" && s.Details != "" {
			t.Errorf("%s %s: %+v, want %s at %s", c.op, c.name, s, c.why, c.at)
		}
		// Permissions alone count in a writable tree, and where other ids are there.
		for _, s := range []Decision{see(Viewer{OneID: true}, c.name, c.op, "rw"), see(Viewer{}, c.name, c.op, "overlay")} {
			if s.Reason == Owner || c.why != Absent && !s.Granted || s.Details != "" {
				t.Errorf("%s %s: %+v, where permissions count", c.op, c.name, s)
			}
		}
	}
}

// acl is tags, permissions and ids.
func acl(entries ...[3]uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, uint16(e[0]))
		b = binary.LittleEndian.AppendUint16(b, uint16(e[1]))
		b = binary.LittleEndian.AppendUint32(b, e[2])
	}
	return b
}

func TestModesAndACLs(t *testing.T) {
	v := &Checker{by: Viewer{UID: 1, GID: 10, Groups: []uint32{20}}}
	const owner = 0x01
	list := func(user, group, mask, other uint32) []byte {
		return acl([3]uint32{owner, 7}, [3]uint32{aclUser, user, 1}, [3]uint32{aclUser, 7, 99}, [3]uint32{aclGroupObj, group},
			[3]uint32{aclGroup, 1, 20}, [3]uint32{aclMask, mask}, [3]uint32{aclOther, other})
	}
	for _, c := range []struct {
		name     string
		uid, gid uint32
		mode     fs.FileMode
		acl      []byte
		want     uint32
		may      bool
	}{
		{"the owner", 1, 0, 0o400, nil, 4, true},
		{"the owner is no other", 1, 0, 0o077, nil, 4, false},
		{"the group", 0, 10, 0o040, nil, 4, true},
		{"the group is no other", 0, 10, 0o704, nil, 4, false},
		{"a supplementary group", 0, 20, 0o020, nil, 2, true},
		{"others", 0, 0, 0o001, nil, 1, true},
		{"not all that is wanted", 0, 0, 0o001, nil, 3, false},
		{"a user of the ACL", 0, 0, 0o070, list(6, 0, 7, 0), 6, true},
		{"a user of the ACL, masked", 0, 0, 0o040, list(6, 0, 4, 0), 2, false},
		{"the owner asks no ACL", 1, 0, 0o070, list(7, 7, 7, 7), 4, false},
		{"a mode without a mask asks no ACL", 0, 0, 0o004, list(0, 0, 0, 0), 4, true},
		{"a group of the ACL", 0, 0, 0o070, acl([3]uint32{owner, 0}, [3]uint32{aclGroupObj, 0}, [3]uint32{aclGroup, 4, 20}, [3]uint32{aclMask, 7}, [3]uint32{aclOther, 7}), 4, true},
		{"in a group, and so no other", 0, 0, 0o070, acl([3]uint32{owner, 0}, [3]uint32{aclGroupObj, 0}, [3]uint32{aclGroup, 1, 20}, [3]uint32{aclMask, 7}, [3]uint32{aclOther, 7}), 4, false},
		{"other by the ACL", 0, 0, 0o070, acl([3]uint32{owner, 0}, [3]uint32{aclGroupObj, 0}, [3]uint32{aclGroup, 7, 30}, [3]uint32{aclMask, 0}, [3]uint32{aclOther, 4}), 4, true},
		{"a broken ACL", 0, 0, 0o070, []byte{2, 0}, 4, false},
	} {
		n := node{Inode: hostfs.Inode{File: hostfs.File{Mode: c.mode}, UID: c.uid, GID: c.gid, ACL: c.acl}}
		if got := v.may(&n, c.want); got != c.may {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
