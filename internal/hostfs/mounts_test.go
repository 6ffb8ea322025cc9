package hostfs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
)

func TestMountsAreRead(t *testing.T) {
	got := hostfs.ParseMounts("21 1 254:3 / / rw,relatime shared:1 master:2 - ext4 /dev/a rw\n" +
		"22 21 0:1048575 /a\\040b\\134\\011 /c\\012d rw - fuse.sshfs x rw\n")
	want := hostfs.Mounts{{ID: 21, On: 1, Dev: 254<<20 | 3, Root: "/", At: "/", Numbered: true}, {ID: 22, On: 21, Dev: 1048575, Root: "/a b\\\t", At: "/c\nd", Numbered: false}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	h := hosttest.Debian(t)
	for text, mounted := range map[string]bool{
		"nonsense\n":                           true, // it can't be told
		"21 1 254:3 / / rw - ext4 /dev/a rw\n": false,
		"21 1 254:3 / / rw - ext4 /dev/a rw\n22 21 0:9 / /etc/x rw - tmpfs t rw\n": true,
	} {
		h.Put("/proc/self/mountinfo", 0o444, text)
		if hostfs.MountedBelow(h, "/etc") != mounted {
			t.Errorf("%q: mounted below: %v", text, !mounted)
		}
	}
}

func FuzzMounts(f *testing.F) {
	f.Add("21 1 254:3 /a\\040 / rw - ext4 /dev/a rw\n", "/a/b")
	f.Fuzz(func(t *testing.T, text, at string) {
		table := hostfs.ParseMounts(text)
		if m := table.Covering("/" + at); m != nil && !hostfs.Under("/"+at, m.At) {
			t.Errorf("%+v covers /%q", m, at)
		}
	})
}

func FuzzBoundTo(f *testing.F) {
	f.Add("00000000803d1081: 00000002 00000000 00010000 0001 01 12345 /home/u/p/a\nb\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range hostfs.BoundSockets(text) {
			if strings.HasPrefix(s.Name, "@") || s.Name == "" {
				t.Errorf("%q", s.Name)
			}
		}
	})
}
