package integration

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

// packages are made of this version, at this time.
const packagedVersion, packagedAt = "v1.2.3-rc.1", "1700000000"

// TestPackages makes the packages twice, takes them apart with the tools that install them, and runs what is in the deb as an ordinary user.
func TestPackages(t *testing.T) {
	if os.Getenv(programsVar) != "" {
		t.Skip("the run as root made them, and ran what is in them as an ordinary user")
	}
	needs(t, "program:dpkg-deb", "program:rpm", "program:tar", "program:sha256sum")
	t.Parallel()
	dir := filepath.Join(scene.dir, "packages") // where the ordinary user may look
	out, again := filepath.Join(dir, "out"), filepath.Join(dir, "again")
	programs := filepath.Join(dir, "programs")
	must.Do(t, os.MkdirAll(programs, 0o755))
	host := "linux-" + runtime.GOARCH
	for _, name := range []string{"confine", "confine-server", "confine-vm", "confine-wasm", "confine-worker"} {
		for _, suffix := range []string{"-" + host, "-darwin-arm64", "-windows-amd64.exe"} {
			var err error
			switch to := filepath.Join(programs, name+suffix); {
			case name != "confine": // only their places count
				err = os.WriteFile(to, []byte(name), 0o755)
			case suffix == "-"+host:
				err = os.Link(filepath.Join(scene.programs, name), to)
			default: // a small one
				err = os.Link(filepath.Join(scene.programs, "confine-vm"), to)
			}
			must.Do(t, err)
		}
	}
	maker := filepath.Join(dir, "packaging")
	output(t, "../packaging", "go", "build", "-o", maker, ".")
	output(t, ".", maker, "-root", "..", "-programs", programs, "-out", out, "-version", packagedVersion, "linux/"+runtime.GOARCH, "darwin/arm64", "windows/amd64")
	output(t, ".", "env", "TZ=Asia/Tokyo", maker, "-root", "..", "-programs", programs, "-out", again, "-version", packagedVersion, "windows/amd64", "linux/"+runtime.GOARCH, "darwin/arm64")
	for _, name := range namesIn(t, out) {
		one, err := os.ReadFile(filepath.Join(out, name))
		if two, other := os.ReadFile(filepath.Join(again, name)); err != nil || other != nil || !bytes.Equal(one, two) {
			t.Errorf("%s isn't the same the second time: %v, %v", name, err, other)
		}
	}
	if sums := strings.Count(output(t, out, "sha256sum", "--strict", "-c", "SHA256SUMS"), ": OK\n"); sums != 5 || len(namesIn(t, out)) != sums+1 {
		t.Errorf("%d sums are of %q", sums, namesIn(t, out))
	}
	t.Run("archives", func(t *testing.T) { inArchives(t, out) })
	t.Run("deb", func(t *testing.T) { inDeb(t, dir, one(t, out, "*.deb")) })
	t.Run("rpm", func(t *testing.T) { inRPM(t, one(t, out, "*.rpm")) })
}

var (
	common = []string{"share/bash-completion/completions/confine", "share/doc/confine/LICENSE", "share/doc/confine/README.md", "share/fish/vendor_completions.d/confine.fish",
		"share/man/man1/confine.1", "share/zsh/site-functions/_confine"}
	ofLinux = append([]string{"bin/confine", "bin/confine-oci", "bin/confine-server", "bin/confine-vm", "bin/confine-wasm", "bin/confine-worker"}, common...)
)

func inArchives(t *testing.T, out string) {
	for suffix, want := range map[string][]string{"linux-" + runtime.GOARCH: ofLinux, "darwin-arm64": append([]string{"bin/confine"}, common...)} {
		name := "confine-1.2.3-rc.1-" + suffix
		if got := strings.Fields(output(t, out, "tar", "-tzf", name+".tar.gz")); !reflect.DeepEqual(got, below(name+"/", want)) {
			t.Errorf("%s has %q", name, got)
		}
	}
	name := "confine-1.2.3-rc.1-windows-amd64"
	z, err := zip.OpenReader(filepath.Join(out, name+".zip"))
	must.Do(t, err)
	defer z.Close()
	var got []string
	for _, f := range z.File {
		got = append(got, f.Name)
	}
	if !reflect.DeepEqual(got, below(name+"/", append([]string{"bin/confine.exe"}, common...))) {
		t.Errorf("%s has %q", name, got)
	}
}

func inDeb(t *testing.T, dir, deb string) {
	if got := output(t, ".", "dpkg-deb", "-f", deb, "Package", "Version", "Architecture"); got != "Package: confine\nVersion: 1.2.3~rc.1\nArchitecture: "+runtime.GOARCH+"\n" {
		t.Errorf("it says %q", got)
	}
	root := filepath.Join(dir, "root")
	output(t, ".", "dpkg-deb", "-x", deb, root)
	output(t, ".", "dpkg-deb", "-e", deb, filepath.Join(dir, "control"))
	want := slices.Clone(ofLinux)
	for i, name := range want {
		switch name {
		case "share/doc/confine/LICENSE":
			want[i] = "share/doc/confine/copyright"
		case "share/zsh/site-functions/_confine":
			want[i] = "share/zsh/vendor-completions/_confine"
		}
	}
	want = below("/usr/", append(want, "share/confine/apparmor"))
	slices.Sort(want)
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(output(t, ".", "dpkg-deb", "-c", deb)), "\n") {
		f := strings.Fields(line)
		if f[1] != "root/root" {
			t.Errorf("somebody else's: %s", line)
		}
		if !strings.HasSuffix(f[5], "/") {
			got = append(got, strings.TrimPrefix(f[5], "."))
		}
	}
	if slices.Sort(got); !reflect.DeepEqual(got, want) {
		t.Errorf("it has %q, want %q", got, want)
	}
	profile, err := os.ReadFile(filepath.Join(root, "usr/share/confine/apparmor"))
	if err != nil || !strings.Contains(string(profile), "\nprofile usr.bin.confine /usr/bin/confine{,-server,-worker} flags=(unconfined) {\n  userns,\n") {
		t.Errorf("the AppArmor profile is %q, %v", profile, err)
	}
	t.Run("scripts", func(t *testing.T) { debScripts(t, dir, root) })
	t.Run("runs", func(t *testing.T) {
		needs(t, "userns")
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "usr/bin/confine"), "--", "echo", "from the package")
		cmd.Dir, cmd.Env = root, []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent"}
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser}}
		}
		if text, err := cmd.Output(); err != nil || string(text) != "from the package\n" {
			t.Errorf("%q, %v", text, err)
		}
	})
}

// debScripts runs the scripts of the deb, about another /etc, with an AppArmor that writes down how it is called and fails.
func debScripts(t *testing.T, dir, root string) {
	etc, bin := filepath.Join(dir, "etc"), filepath.Join(dir, "bin")
	profile, loaded := filepath.Join(etc, "usr.bin.confine"), filepath.Join(dir, "loaded")
	must.Do(t, os.MkdirAll(bin, 0o755))
	script := func(name string, words ...string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "control", name))
		must.Do(t, err)
		text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("/etc/apparmor.d"), []byte(etc)), []byte("/usr/share/"), []byte(root+"/usr/share/"))
		output(t, ".", "env", append([]string{"PATH=" + bin + ":/usr/bin:/bin", "sh", "-c", string(text), name}, words...)...)
	}
	there := func(path string) bool { _, err := os.Stat(path); return err == nil }

	script("postinst", "configure")
	if there(profile) {
		t.Error("an AppArmor got a profile that it can't read")
	}
	must.Do(t, os.MkdirAll(filepath.Join(etc, "abi", "4.0"), 0o755))
	script("postinst", "configure")
	if !there(profile) {
		t.Error("no profile came to be where AppArmor isn't at work yet")
	}
	for name, text := range map[string]string{"aa-enabled": "exit 0", "apparmor_parser": fmt.Sprintf("echo $1 >>%q; exit 1", loaded)} {
		must.Do(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	script("postinst", "configure")
	script("postrm", "upgrade", "2.0")
	if !there(profile) {
		t.Error("an upgrade took the profile away")
	}
	script("postrm", "remove")
	script("postrm", "purge")
	if text, err := os.ReadFile(loaded); err != nil || string(text) != "-r\n-R\n" || there(profile) {
		t.Errorf("the parser was called %q, %v; the profile is there: %v", text, err, there(profile))
	}
}

func inRPM(t *testing.T, rpm string) {
	ask := func(words ...string) string {
		return output(t, ".", "rpm", append([]string{"--dbpath", t.TempDir()}, words...)...)
	}
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	if got := ask("-qp", "--qf", "%{NAME} %{VERSION} %{ARCH} %{LICENSE} %{BUILDTIME}", rpm); got != "confine 1.2.3~rc.1 "+arch+" Apache-2.0 "+packagedAt {
		t.Errorf("it says %q", got)
	}
	if got := strings.Fields(ask("-qlp", rpm)); !reflect.DeepEqual(got, below("/usr/", ofLinux)) {
		t.Errorf("it has %q", got)
	}
	if got := ask("-K", rpm); !strings.HasSuffix(got, ": digests OK\n") {
		t.Error(got)
	}
}

// output runs a program of this host, which has to succeed.
func output(t *testing.T, dir, name string, words ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, words...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+packagedAt, "CGO_ENABLED=0", "LC_ALL=C")
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, words, err, text)
	}
	return string(text)
}

func below(dir string, names []string) (all []string) {
	for _, name := range names {
		all = append(all, dir+name)
	}
	return all
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.Do(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// one is the file that a pattern stands for.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}
