package wine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
)

// tree is a Debian with Wine, which .ci/run makes, and in it a prefix at /prefix.
const tree = "CONFINE_WINE"

// inside runs a program of Windows in the tree: it has mounts and processes of its own, and none is left.
const inside = `
mount -t proc proc "$1/proc"
mount -t tmpfs tmpfs "$1/tmp"
mkdir "$1/tmp/work"
mount --bind "$2" "$1/tmp/work"
cd "$1/tmp/work"
exec chroot "$1" /usr/bin/env -i HOME=/tmp PATH=/usr/bin:/bin XDG_RUNTIME_DIR=/tmp WINEPREFIX=/prefix WINEDEBUG=-all WINEDLLOVERRIDES='mscoree=;mshtml=' \
	CONFINE_BIN='Z:\tmp\work\confine.exe' sh -c 'cd /tmp/work/$1 && shift && exec wine "$@" </dev/null' sh "$3" "Z:\\tmp\\work\\$4" -test.timeout=100s -test.v
`

func TestUnderWine(t *testing.T) {
	root := os.Getenv(tree)
	if root == "" || os.Geteuid() != 0 {
		must.Do(t, host.MustRun("wine"))
		t.Skip("no " + tree)
	}
	work := t.TempDir()
	build := func(words ...string) {
		cmd := exec.Command("go", words...)
		cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %q: %v\n%s", words, err, out)
		}
	}
	build("build", "-o", filepath.Join(work, "confine.exe"), "../..")
	for name, pkg := range map[string]string{"program": "../windows", "backend": "../../backend/windows"} {
		build("test", "-c", "-o", filepath.Join(work, name+".exe"), pkg)
		must.Do(t, os.CopyFS(filepath.Join(work, name), os.DirFS(pkg)))
	}
	page, err := os.ReadFile("../../docs/SYSTEMS.md") // whose table is tried
	if err == nil {
		err = os.WriteFile(filepath.Join(work, "program", "SYSTEMS.md"), page, 0o644)
	}
	must.Do(t, err)
	for _, name := range []string{"program", "backend"} {
		out, err := os.Create(filepath.Join(work, name+".log")) // what stays in the background has it open, too
		must.Do(t, err)
		cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", inside, "sh", root, work, name, name+".exe")
		cmd.Stdout, cmd.Stderr = out, out
		err = cmd.Run()
		_ = out.Close()
		text, read := os.ReadFile(out.Name())
		if err != nil || read != nil || !strings.Contains(string(text), "PASS") {
			t.Errorf("%s: %v, %v\n%s", name, err, read, text)
		}
		t.Logf("%s\n%s", name, text)
	}
}
