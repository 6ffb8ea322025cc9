package engine

import (
	"bytes"
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	expsys "github.com/tetratelabs/wazero/experimental/sys"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/wasm"
	"github.com/confine-run/confine/status"
)

// module is one in the binary format: a memory of so many pages, and _start with this code. Function 0 is proc_exit, 1 is _start.
func module(pages byte, code ...byte) []byte {
	section := func(id byte, body ...byte) []byte { return append([]byte{id, byte(len(body))}, body...) }
	body := append([]byte{0}, append(code, 0x0b)...) // no locals … end
	name := func(text string) []byte { return append([]byte{byte(len(text))}, text...) }
	imports := append(append([]byte{1}, append(name("wasi_snapshot_preview1"), name("proc_exit")...)...), 0, 0)
	return bytes.Join([][]byte{
		[]byte("\x00asm\x01\x00\x00\x00"),
		section(1, 2, 0x60, 1, 0x7f, 0, 0x60, 0, 0), // types: (i32) → (), () → ()
		section(2, imports...),
		section(3, 1, 1),
		section(5, 1, 0, pages),
		section(7, append([]byte{2}, append(append(name("_start"), 0, 1), append(name("memory"), 2, 0)...)...)...),
		section(10, append([]byte{1, byte(len(body))}, body...)...),
	}, nil)
}

func runModule(t *testing.T, o wasm.Options, text []byte) (*wasm.Told, int) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "m.wasm")
	must.Do(t, os.WriteFile(name, text, 0o600))
	return run(&o, []string{name}, nil)
}

// What the engine's library says of traps has no type that can be named: this is what holds its words to ours.
func TestEndings(t *testing.T) {
	const i32, drop = 0x41, 0x1a
	exit := func(code byte) []byte { return []byte{i32, code, 0x10, 0} }
	grow := append([]byte{i32, 0xff, 0x00, 0x40, 0, drop}, exit(3)...) // 127 pages
	for name, tt := range map[string]struct {
		options wasm.Options
		text    []byte
		code    int
		want    wasm.Told
	}{
		"end":         {text: module(1)},
		"exit":        {text: module(1, exit(7)...), code: 7},
		"unreachable": {text: module(1, 0x00), code: 132, want: wasm.Told{Status: status.KilledSignal, Signal: "SIGILL", Reason: "trap: unreachable"}},
		"beyond its memory": {text: module(1, i32, 0x80, 0x80, 0x80, 0x80, 0x78, 0x28, 2, 0, drop), code: 139, // i32.load at 0x80000000
			want: wasm.Told{Status: status.KilledSignal, Signal: "SIGSEGV", Reason: "trap: out of bounds memory access"}},
		"division":                    {text: module(1, i32, 1, i32, 0, 0x6d, drop), code: 136, want: wasm.Told{Status: status.KilledSignal, Signal: "SIGFPE", Reason: "trap: integer divide by zero"}},
		"overflow":                    {text: module(1, i32, 0x80, 0x80, 0x80, 0x80, 0x78, i32, 0x7f, 0x6d, drop), code: 136, want: wasm.Told{Status: status.KilledSignal, Signal: "SIGFPE", Reason: "trap: integer overflow"}},
		"recursion":                   {text: module(1, 0x10, 1), code: 139, want: wasm.Told{Status: status.KilledSignal, Signal: "SIGSEGV", Reason: "trap: stack overflow"}},
		"enough memory":               {options: wasm.Options{Pages: 200}, text: module(1, grow...), code: 3},
		"too little":                  {options: wasm.Options{Pages: 100}, text: module(1, grow...), code: 3, want: wasm.Told{Status: status.MemLimit}},
		"too little, and that's fine": {options: wasm.Options{Pages: 100}, text: module(1, i32, 0xff, 0x00, 0x40, 0, drop)},
		"begins with more":            {options: wasm.Options{Pages: 1}, text: module(2), code: 137, want: wasm.Told{Status: status.MemLimit}},
		"begins with more, unseen": {options: wasm.Options{Pages: 1}, text: bytes.Replace(module(2), []byte("memory\x02\x00"), []byte("memory\x00\x01"), 1), code: 137,
			want: wasm.Told{Status: status.MemLimit}},
		"no module":        {text: []byte("#!/bin/sh\n"), code: 126, want: wasm.Told{Status: status.ExecFailed, Code: 126}},
		"another import":   {text: bytes.Replace(module(1), []byte("wasi_snapshot_preview1"), []byte("wasi_snapshot_preview9"), 1), code: 126, want: wasm.Told{Status: status.ExecFailed, Code: 126}},
		"no such function": {text: bytes.Replace(module(1), []byte("proc_exit"), []byte("proc_exix"), 1), code: 126, want: wasm.Told{Status: status.ExecFailed, Code: 126}},
		"another type":     {text: bytes.Replace(module(1), []byte("proc_exit"), []byte("path_open"), 1), code: 126, want: wasm.Told{Status: status.ExecFailed, Code: 126}},
		"a library":        {text: bytes.Replace(module(1), []byte("_start"), []byte("_other"), 1), code: 126, want: wasm.Told{Status: status.ExecFailed, Code: 126}},
	} {
		t.Run(name, func(t *testing.T) {
			told, code := runModule(t, tt.options, tt.text)
			if code != tt.code || told.Status != tt.want.Status || told.Signal != tt.want.Signal || told.Code != tt.want.Code || tt.want.Reason != "" && told.Reason != tt.want.Reason {
				t.Errorf("%d, %+v", code, told)
			}
			if (told.Status == "") != (told.Reason == "") {
				t.Errorf("a reason for what needs none, or none: %+v", told)
			}
		})
	}
	if told, code := run(&wasm.Options{}, []string{"/no/such.wasm"}, nil); code != 127 || told.Status != status.ExecFailed {
		t.Errorf("%d, %+v", code, told)
	}
}

// Whatever lies in a tree, nothing out of it is read, written, changed or found, and nothing is waited for.
func TestNothingLeadsOutOfATree(t *testing.T) {
	out := t.TempDir()
	secret := filepath.Join(out, "secret")
	dir := t.TempDir()
	for _, err := range []error{
		os.WriteFile(secret, []byte("of the host"), 0o600), os.WriteFile(filepath.Join(dir, "plain"), []byte("plain"), 0o600), os.Mkdir(filepath.Join(dir, "sub"), 0o700),
		os.Symlink(secret, filepath.Join(dir, "link")), os.Symlink(out, filepath.Join(dir, "dirlink")), os.Symlink("../../../../../../.."+secret, filepath.Join(dir, "sub", "up")),
		os.Symlink("/proc/self/root"+out, filepath.Join(dir, "magic")), unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600), os.Symlink("plain", filepath.Join(dir, "inner")),
		os.Symlink("/dev/tty", filepath.Join(dir, "tty")),
	} {
		must.Do(t, err)
	}
	s := &seen{}
	tree, err := openTree(dir, s, false)
	must.Do(t, err)
	open := func(name string, flag expsys.Oflag) string {
		f, e := tree.OpenFile(name, flag, 0o600)
		if e != 0 {
			return ""
		}
		defer f.Close()
		text := make([]byte, 100)
		n, _ := f.Read(text)
		return string(text[:n])
	}
	if open("plain", expsys.O_RDONLY) != "plain" || open("inner", expsys.O_RDONLY) != "plain" {
		t.Fatal("the control: what is in it isn't read")
	}
	if _, e := tree.OpenFile("inner", expsys.O_NOFOLLOW, 0); e != expsys.ELOOP {
		t.Errorf("followed although nobody wanted that: %v", e)
	}
	for _, name := range []string{"link", "dirlink/secret", "sub/up", "magic/secret", "fifo", "tty", "../" + filepath.Base(out) + "/secret", secret} {
		for _, flag := range []expsys.Oflag{expsys.O_RDONLY, expsys.O_WRONLY, expsys.O_RDWR | expsys.O_CREAT, expsys.O_WRONLY | expsys.O_TRUNC} {
			if f, e := tree.OpenFile(name, flag, 0o600); e == 0 {
				if st, _ := f.Stat(); !st.Mode.IsRegular() || st.Size != 0 { // the last two make files of those names inside
					t.Errorf("%s was opened by %d", name, flag)
				}
				f.Close()
				_ = tree.Unlink(name)
			}
		}
	}
	for what, e := range map[string]expsys.Errno{
		"chmod": tree.Chmod("link", 0o666), "times": tree.Utimens("link", 1, 1), "a name out": tree.Rename("plain", "dirlink/x"), "a name in": tree.Rename("dirlink/secret", "stolen"),
		"a hard link": tree.Link("dirlink/secret", "stolen"), "a directory": tree.Mkdir("dirlink/d", 0o700), "removal": tree.Unlink("dirlink/secret"), "a link": tree.Symlink("x", "dirlink/l"),
		"a link to the root": tree.Symlink("/etc", "etc"),
	} {
		if e == 0 {
			t.Errorf("%s reached out", what)
		}
	}
	if _, e := tree.Stat("link"); e == 0 {
		t.Error("what is out there is described")
	}
	if st, e := tree.Lstat("link"); e != 0 || st.Mode.Type() != fs.ModeSymlink {
		t.Errorf("the link itself: %v, %v", st.Mode, e)
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "of the host" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o600 || info.ModTime().Unix() < 1e9 {
		t.Errorf("%v, %v", info, err)
	}
	if all, err := os.ReadDir(out); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if len(s.denied) == 0 || len(s.denied) > wasm.MaxDenied {
		t.Errorf("%q", s.denied)
	}
}

// With proc in a tree, its files would be the engine's memory and its descriptors.
func TestNoFileOfTheKernelsIsOpened(t *testing.T) {
	tree, err := openTree("/", &seen{}, false)
	must.Do(t, err)
	for _, name := range []string{"proc/self/mem", "proc/self/environ", "proc/self/fd/0", "proc/self/root/etc/passwd", "proc/version", "sys/kernel/profiling"} {
		for _, flag := range []expsys.Oflag{expsys.O_RDONLY, expsys.O_RDWR} {
			if f, e := tree.OpenFile(name, flag, 0); e == 0 {
				f.Close()
				t.Errorf("%s was opened", name)
			}
		}
	}
	f, e := tree.OpenFile("etc/passwd", expsys.O_RDONLY, 0)
	if e != 0 {
		t.Fatalf("the control: %v", e)
	}
	f.Close()
}

func TestFilesOfATree(t *testing.T) {
	dir := t.TempDir()
	tree, err := openTree(dir, &seen{}, false)
	must.Do(t, err)
	f, e := tree.OpenFile("f", expsys.O_RDWR|expsys.O_CREAT|expsys.O_EXCL, 0o600)
	if e != 0 {
		t.Fatal(e)
	}
	defer f.Close()
	write := func(text string) {
		if n, e := f.Write([]byte(text)); n != len(text) || e != 0 {
			t.Errorf("%d, %v", n, e)
		}
	}
	is := func(want string) {
		t.Helper()
		if text, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(text) != want {
			t.Errorf("%q, %v", text, err)
		}
	}
	write("abc")
	if _, e := f.Seek(0, io.SeekStart); e != 0 || f.SetAppend(true) != 0 {
		t.Error(e)
	}
	write("d")
	is("abcd")
	if _, e := f.Seek(0, io.SeekStart); e != 0 || f.SetAppend(false) != 0 {
		t.Error(e)
	}
	write("x")
	if n, e := f.Pwrite([]byte("y"), 2); n != 1 || e != 0 {
		t.Error(e)
	}
	is("xbyd")
	b := make([]byte, 10)
	if n, e := f.Pread(b, 3); n != 1 || e != 0 || b[0] != 'd' {
		t.Errorf("%d, %v", n, e)
	}
	if n, e := f.Pread(b, 100); n != 0 || e != 0 {
		t.Errorf("beyond the end: %d, %v", n, e)
	}
	if f.Truncate(1) != 0 || f.Truncate(-1) != expsys.EINVAL || f.Sync() != 0 || f.Utimens(5e9, expsys.UTIME_OMIT) != 0 {
		t.Error("truncate, sync or times")
	}
	if st, e := f.Stat(); e != 0 || st.Size != 1 || st.Atim != 5e9 || st.Mtim == 5e9 {
		t.Errorf("%+v, %v", st, e)
	}
	for _, is := range []struct {
		what      string
		got, want expsys.Errno
	}{
		{"a directory", tree.Mkdir("d", 0o700), 0}, {"once more", tree.Mkdir("d", 0o700), expsys.EEXIST}, {"a file as one", tree.Rmdir("f"), expsys.ENOTDIR},
		{"it as a file", tree.Unlink("d"), expsys.EISDIR}, {"missing", tree.Unlink("none"), expsys.ENOENT}, {"moved", tree.Rename("f", "d/g"), 0}, {"full", tree.Rmdir("d"), expsys.ENOTEMPTY},
		{"a directory to be moved", tree.Mkdir("e/", 0o700), 0}, {"over a full one", tree.Rename("e", "d"), expsys.ENOTEMPTY}, {"over a file", tree.Rename("e", "d/g"), expsys.ENOTDIR},
		{"an empty one", tree.Mkdir("empty", 0o700), 0}, {"over an empty one", tree.Rename("e/", "empty/"), 0}, {"which it is now", tree.Rmdir("empty"), 0},
		{"linked", tree.Link("d/g", "h"), 0}, {"a link", tree.Symlink("h", "s"), 0},
	} {
		if is.got != is.want {
			t.Errorf("%s: %v", is.what, is.got)
		}
	}
	if text, e := tree.Readlink("s"); text != "h" || e != 0 {
		t.Errorf("%q, %v", text, e)
	}
	d, e := tree.OpenFile(".", expsys.O_RDONLY, 0)
	if e != 0 {
		t.Fatal(e)
	}
	defer d.Close()
	for range 2 {
		var names []string
		for {
			some, e := d.Readdir(1)
			if e != 0 {
				t.Fatal(e)
			}
			if len(some) == 0 {
				break
			}
			names = append(names, some[0].Name)
		}
		if got := strings.Join(names, " "); got != "d h s" {
			t.Errorf("%q", got)
		}
		if _, e := d.Seek(0, io.SeekStart); e != 0 {
			t.Error(e)
		}
	}
	if _, e := d.Write(b); e != expsys.EISDIR {
		t.Error(e)
	}
}

// Of a directory that one file of was named, there is that one.
func TestOneFileOfADirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one", "other"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	tree, err := openTree(filepath.Join(dir, "one"), &seen{}, false)
	must.Do(t, err)
	if _, e := tree.Stat("one"); e != 0 {
		t.Error(e)
	}
	for what, e := range map[string]expsys.Errno{"read": func() expsys.Errno { _, e := tree.OpenFile("other", 0, 0); return e }(), "made": tree.Mkdir("d", 0o700),
		"moved": tree.Rename("one", "two"), "taken": tree.Rename("other", "one"), "linked": tree.Link("other", "x")} {
		if e != expsys.ENOENT {
			t.Errorf("%s: %v", what, e)
		}
	}
	d, _ := tree.OpenFile(".", 0, 0)
	if some, e := d.Readdir(-1); e != 0 || len(some) != 1 || some[0].Name != "one" || some[0].Ino == 0 {
		t.Errorf("%v, %v", some, e)
	}
}

// What differs between two runs on the same files is the same.
func TestTheSameEachTime(t *testing.T) {
	look := func(touch bool) (sum []byte) {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600))
		tree, err := openTree(dir, &seen{}, true)
		must.Do(t, err)
		tree.name = "/w"
		if touch {
			_ = tree.Utimens("f", 12345, 12345)
		}
		st, _ := tree.Stat("f")
		c := &clock{}
		c.sleep(1e9)
		sec, nsec := c.wall()
		random := make([]byte, 8)
		_, _ = newNumbers().Read(random)
		d, _ := tree.OpenFile(".", 0, 0)
		if all, _ := d.Readdir(-1); len(all) != 1 || all[0].Ino != st.Ino {
			t.Errorf("%v isn't %d", all, st.Ino)
		}
		for _, n := range []uint64{st.Ino, st.Dev, uint64(st.Mtim), uint64(sec), uint64(nsec), uint64(c.nano())} {
			sum = binary.LittleEndian.AppendUint64(sum, n)
		}
		return append(sum, random...)
	}
	if a, b := look(false), look(true); !bytes.Equal(a, b) {
		t.Errorf("%x\n%x", a, b)
	}
}

func TestWhatIsCompiledIsUsed(t *testing.T) {
	var out bytes.Buffer
	text := module(1, 0x41, 9, 0x10, 0)
	must.Do(t, compile(bytes.NewReader(text), &out))
	name, rest, _ := strings.Cut(out.String(), "\n")
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, filepath.Dir(name)), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(rest), 0o600))
	for what, content := range map[string]string{"as it was": rest, "cut": rest[:len(rest)/2], "changed": strings.Repeat("x", len(rest)), "empty": ""} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		told, code := runModule(t, wasm.Options{Cache: dir}, text)
		if code != 9 {
			t.Errorf("%s: %d, %+v", what, code, told)
		}
	}
	if err := compile(strings.NewReader("nothing"), io.Discard); err == nil {
		t.Error("nothing was compiled")
	}
}
