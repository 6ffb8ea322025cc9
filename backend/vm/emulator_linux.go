package vm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/config"
)

// qemuPaths are where QEMU may be: never in PATH, which may lead into a tree of work.
var qemuPaths = []string{"/usr/bin/qemu-system-x86_64", "/usr/local/bin/qemu-system-x86_64"}

// emulator is how QEMU is started in the sandbox around it.
type emulator struct {
	argv, env []string
	shown     []config.Mount // what it needs beside what the policy shows
}

// Where QEMU's firmware may be.
var firmware = []string{"/usr/share/qemu", "/usr/share/seabios", "/usr/share/qemu-firmware"}

// loaders are programs that start others, by the library of C: glibc, and musl.
var loaders = []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"}

// emulatorOf is QEMU as it lies in the system, or, where a tree of the caller's takes the place of that, with its libraries in a place of their own.
func emulatorOf(qemu string, apart bool) (e emulator) {
	e.argv = []string{qemu}
	if !apart {
		return e
	}
	show := func(src, name string) string {
		dst := filepath.Join(inBox, "qemu", name)
		e.shown = append(e.shown, config.Mount{Src: src, Dst: dst})
		return dst
	}
	e.argv = []string{show(qemu, "program")}
	var libraries []string
	for _, path := range loaders {
		path, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		own := filepath.Dir(path)
		for _, dir := range []string{own, "/usr/lib/x86_64-linux-gnu", "/usr/lib64"} {
			if real, err := filepath.EvalSymlinks(dir); err != nil || real != dir && dir != own || slices.ContainsFunc(e.shown, func(m config.Mount) bool { return m.Src == dir }) {
				continue
			}
			at := show(dir, "lib"+dir)
			libraries = append(libraries, at)
			if _, err := os.Stat(filepath.Join(dir, "qemu")); err == nil && e.env == nil {
				e.env = []string{"QEMU_MODULE_DIR=" + filepath.Join(at, "qemu")}
			}
		}
		e.argv = []string{filepath.Join(libraries[0], filepath.Base(path)), "--library-path", strings.Join(libraries, ":"), e.argv[0]}
		break
	}
	for _, dir := range firmware {
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			e.argv = append(e.argv, "-L", show(dir, filepath.Base(dir)))
		}
	}
	return e
}
