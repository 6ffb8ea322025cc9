package denials

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

const status = "Name:\tgdb\nUmask:\t0022\nTgid:\t700\nPid:\t701\nNStgid:\t700\t4\nNSpid:\t701\t5\n" +
	"FDSize:\t256\nSigPnd:\t0000000000000000\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000000002\n"

func TestParse(t *testing.T) {
	want := Thread{Process: Process{4, "gdb"}, TID: 5, Group: 700, Room: 256, ignored: 0x1000, caught: 2, masks: 3}
	if got := parse(status); got != want || got.survivesSIGSYS() || got.Signalled() {
		t.Errorf("%+v, want %+v", got, want)
	}
	for pending, want := range map[string]bool{"0000000000001000": false, "0000000000000200": true} { // the first is ignored
		got := parse(strings.Replace(status, "SigPnd:\t0000000000000000", "ShdPnd:\t"+pending, 1))
		if got.Signalled() != want {
			t.Errorf("%s: %+v", pending, got)
		}
	}
	const sigsys = "0000000040000000"
	for _, mask := range []string{"SigBlk:\t0000000000000000", "SigIgn:\t0000000000001000", "SigCgt:\t0000000000000002"} {
		key, _, _ := strings.Cut(mask, "\t")
		for _, instead := range []string{key + "\t" + sigsys, key + "\tx", ""} {
			if got := parse(strings.Replace(status, mask, instead, 1)); !got.survivesSIGSYS() {
				t.Errorf("%q instead of %q: SIGSYS would end it", instead, mask)
			}
		}
	}
	if got := parse("Tgid:\t9\n"); got.PID != 9 || !got.survivesSIGSYS() || !got.Signalled() {
		t.Errorf("a kernel without namespaces: %+v", got)
	}
	if got := parse("Name:\t\xff\x1b\n"); got.Comm != "\uFFFD\x1b" {
		t.Errorf("%q", got.Comm)
	}
	if got := parse(""); got != (Thread{}) || !got.survivesSIGSYS() {
		t.Errorf("nothing: %+v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(status)
	f.Fuzz(func(_ *testing.T, s string) { parse(s) })
}

func TestLook(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	must.Do(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	p, err := Look(cmd.Process.Pid)
	if err != nil || p.Group != cmd.Process.Pid || p.PID == 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := Look(1 << 30); err == nil {
		t.Error("nobody is somebody")
	}
}

func TestText(t *testing.T) {
	page := unix.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	must.Do(t, err)
	defer unix.Munmap(mem)
	must.Do(t, unix.Mprotect(mem[page:], unix.PROT_NONE))
	base := uint64(uintptr(unsafe.Pointer(&mem[0])))
	copy(mem, "tmpfs\x00rest")
	copy(mem[100:], strings.Repeat("x", 200))
	copy(mem[page-3:], "ab\x00")
	for _, c := range []struct {
		at   uint64
		want string
	}{
		{base, "tmpfs"}, {base + 100, strings.Repeat("x", maxText) + "…"}, {base + uint64(page) - 3, "ab"},
		{base + uint64(page), ""}, {0, ""},
	} {
		if got := text(os.Getpid(), c.at); got != c.want {
			t.Errorf("at %#x: %q, want %q", c.at-base, got, c.want)
		}
	}
}
