package root

import (
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/must"
)

func TestParseMountinfo(t *testing.T) {
	table, ok := parseMountinfo("22 28 0:20 / /proc rw,nosuid shared:1 - proc proc rw\n" +
		"29 28 8:1 /a /with\\040blank\\134 ro,nodev - ext4 /dev/x rw\n")
	if !ok || len(table) != 2 {
		t.Fatal(table, ok)
	}
	if table[1].id != "29" || table[1].parent != "28" || table[1].point != `/with blank\` || !table[1].has("ro") || !table[1].has("nodev") || table[1].has("nosuid") || table[1].has("no") {
		t.Errorf("%+v", table[1])
	}
	for _, bad := range []string{"22 28 0:20 /\n", "x\n", "22 28 0:20 / proc rw - x\n"} {
		if _, ok := parseMountinfo(bad); ok {
			t.Errorf("%q passed", bad)
		}
	}
}

func FuzzParseMountinfo(f *testing.F) {
	f.Add("22 28 0:20 / /proc rw,nosuid shared:1 - proc proc rw\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, ok := parseMountinfo(text)
		for i := range table {
			if ok && !strings.HasPrefix(table[i].point, "/") {
				t.Errorf("%q", table[i].point)
			}
		}
	})
}

func TestVerifyHoldsTheTableAgainstThePlan(t *testing.T) {
	c := &checker{all: planned([]handoff.Mount{
		{Kind: handoff.MountBind, Dst: "/usr", ReadOnly: true},
		{Kind: handoff.MountBind, Dst: "/work", ReadOnly: false},
		{Kind: handoff.MountReadOnly, Dst: "/work/.git"},
		{Kind: handoff.MountBind, Dst: "/dev/null", Device: true},
		{Kind: handoff.MountMask, Dst: "/usr/secret"},
		{Kind: handoff.MountDevpts, Dst: "/dev/pts", Size: 32},
	}), fell: new(handoff.Fallbacks)}
	good := []mountEntry{
		{point: "/", options: "ro,nosuid,nodev"},
		{point: "/usr", options: "ro,nosuid,nodev,relatime"},
		{point: "/usr/local", options: "ro,nosuid,nodev"}, // mounted there by the caller
		{point: "/work", options: "rw,nosuid,nodev"},
		{point: "/work/.git", options: "ro,nosuid,nodev"},
		{point: "/dev/null", options: "rw,nosuid"},
		{point: "/usr/secret", options: "ro,nosuid,nodev,noexec"},
		{point: "/dev/pts", options: "rw,nosuid,noexec", super: "rw,mode=620,ptmxmode=666,max=32"},
	}
	must.Do(t, c.check(good))
	for _, bad := range []mountEntry{
		{point: "/", options: "rw,nosuid,nodev"},
		{point: "/usr", options: "rw,nosuid,nodev"},
		{point: "/usr/local", options: "rw,nosuid,nodev"},
		{point: "/usr", options: "ro,nodev"},
		{point: "/work", options: "rw,nosuid"},
		{point: "/work/.git", options: "rw,nosuid,nodev"},
		{point: "/work/.git/x", options: "rw,nosuid,nodev"},
		{point: "/dev/null", options: "rw"},
		{point: "/usr/secret", options: "rw,nosuid,nodev"},
		{point: "/dev/pts", options: "rw,nosuid,noexec", super: "rw,mode=620,ptmxmode=666"},
		{point: "/dev/pts", options: "rw,nosuid,noexec", super: "rw,mode=620,ptmxmode=666,max=320"},
		{point: "/home", options: "ro,nosuid,nodev"},
		{point: "/usrx", options: "ro,nosuid,nodev"},
	} {
		if c.check([]mountEntry{bad}) == nil {
			t.Errorf("%+v passed", bad)
		}
	}
}

// What is mounted over all of another mount hides it; then the flags of that count. And
// an overlay that could not be made is held to be read-only, and no other.
func TestVerifyKnowsWhatIsCovered(t *testing.T) {
	c := &checker{all: planned([]handoff.Mount{
		{Kind: handoff.MountOverlay, Dst: "/home/u"},
		{Kind: handoff.MountMask, Dst: "/home/u"},
		{Kind: handoff.MountOverlay, Dst: "/cache"},
		{Kind: handoff.MountOverlay, Dst: "/work"},
	}), fell: new(handoff.Fallbacks), flat: []string{"/work"}}
	good := []mountEntry{
		{"1", "0", "/", "ro,nosuid,nodev", ""},
		{"2", "1", "/home/u", "rw,nosuid,nodev", ""},
		{"3", "2", "/home/u", "ro,nosuid,nodev", ""},
		{"4", "1", "/cache", "rw,nosuid,nodev", ""},
		{"5", "1", "/work", "ro,nosuid,nodev", ""},
		{"6", "5", "/work/mounted", "ro,nosuid,nodev", ""},
	}
	must.Do(t, c.check(good))
	for name, change := range map[string]func(table []mountEntry){
		"by itself":    func(table []mountEntry) { table[2] = mountEntry{"3", "3", "/home/u", "rw,nosuid,nodev", ""} },
		"beside":       func(table []mountEntry) { table[2].parent = "1" },
		"the upper":    func(table []mountEntry) { table[2].options = "rw,nosuid,nodev" },
		"set-id below": func(table []mountEntry) { table[1].options = "rw,nodev" },
		"no overlay":   func(table []mountEntry) { table[4].options = "rw,nosuid,nodev" },
		"below it":     func(table []mountEntry) { table[5].options = "rw,nosuid,nodev" },
	} {
		table := slices.Clone(good)
		change(table)
		if c.check(table) == nil {
			t.Errorf("%s: passed", name)
		}
	}
}
