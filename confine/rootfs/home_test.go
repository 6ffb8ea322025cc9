package rootfs

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

func TestAHomeThatCantBeAnOverlayIsToldOf(t *testing.T) {
	h := host(t, "/home/u/notes=1", "/home/file=1")
	for home, why := range map[string]string{
		"": "not set", "rel": "not absolute", "/": "no home directory", "//": "no home directory", "/nonexistent": "nothing is there",
		"/home/file": "not a directory", "/usr": "the system's", "/proc/1": "the system's", "/home/u": "",
	} {
		r := compile(t, h, func(in *Input) { in.EphemeralHome, in.HomeDir, in.Dir = true, home, "/home/u/p" })
		if !strings.Contains(r.NoHome, why) || (r.NoHome == "") != (why == "") || (len(r.Notices) == 1) != (why != "") {
			t.Errorf("HOME=%q: %q %q", home, r.NoHome, r.Notices)
		}
		r = compile(t, h, func(in *Input) { in.HomeDir = home }) // who doesn't ask needn't know
		if r.NoHome != "" || len(r.Notices) != 0 {
			t.Errorf("HOME=%q, unasked: %q %q", home, r.NoHome, r.Notices)
		}
	}
}

func TestAHomeThatIsNobodysOverlayIsAnError(t *testing.T) {
	h := host(t, "/img/bin/true*", "/home/v/notes=1")
	h.other = true
	as := func(home string) func(*Input) {
		return func(in *Input) { in.EphemeralHome, in.HomeDir, in.AccessUID, in.UID = true, home, 1004, 1004 }
	}
	_, err := Compile(plain(h, as("/root")))
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, fs.ErrPermission) || e.Option != optEphemeralHome || !strings.Contains(e.Hint, "uid 1004") {
		t.Errorf("the home of another: %v", err)
	}
	if _, err := Compile(plain(h, as("/home/v"))); err != nil { // the control
		t.Error(err)
	}
	for _, home := range []string{"/home/u", ""} {
		if _, err := Compile(plain(h, func(in *Input) { in.EphemeralHome, in.Rootfs, in.HomeDir = true, "/img", home })); !errors.Is(err, ErrOtherRoot) {
			t.Errorf("in another tree, HOME=%q: %v", home, err)
		}
		if _, err := Compile(plain(h, func(in *Input) { in.EphemeralHome, in.Virtual, in.HomeDir = true, true, home })); !errors.Is(err, ErrConflict) {
			t.Errorf("--virtual-fs, HOME=%q: %v", home, err)
		}
	}
}
