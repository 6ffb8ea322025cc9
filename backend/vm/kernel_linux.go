package vm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// kernel is what a machine boots.
type kernel struct {
	path    string
	release string
	modules string // directory of its modules; empty: there is none
}

// kernelHint says where a kernel may come from.
const kernelHint = "--vm-kernel FILE names one, such as /boot/vmlinuz-* of a distribution, with its modules in ../lib/modules beside it or in /lib/modules"

// findKernel is the one that was named, the one beside this program (confine-kernel), or the host's.
func findKernel(named string) (*kernel, error) {
	candidates := []string{named}
	if named == "" {
		if own, err := os.Executable(); err == nil {
			candidates = []string{filepath.Join(filepath.Dir(own), "confine-kernel")}
		}
		var u unix.Utsname
		if err := unix.Uname(&u); err == nil {
			release := unix.ByteSliceToString(u.Release[:])
			candidates = append(candidates, "/boot/vmlinuz-"+release, "/lib/modules/"+release+"/vmlinuz")
		}
	}
	var errs []error
	for _, path := range candidates {
		k, err := readKernel(path)
		if err == nil {
			return k, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || named != "" {
			errs = append(errs, err)
		}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return nil, errors.New("there is no kernel for it")
}

// readKernel finds out what a file is.
func readKernel(path string) (*kernel, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	release, err := releaseOf(f)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	k := &kernel{path: path, release: release}
	for _, dir := range []string{filepath.Join(filepath.Dir(path), "..", "lib", "modules", release), filepath.Join("/lib/modules", release)} {
		if st, err := os.Stat(filepath.Join(dir, "kernel")); err == nil && st.IsDir() {
			k.modules = dir
			break
		}
	}
	return k, nil
}

// releaseOf reads the release of a kernel from its header, as Documentation/arch/x86/boot.rst has it.
func releaseOf(f *os.File) (string, error) {
	errNone := errors.New("it is no Linux kernel for x86 (bzImage)")
	header := make([]byte, 0x210)
	if _, err := f.ReadAt(header, 0); err != nil || string(header[0x202:0x206]) != "HdrS" {
		return "", errNone
	}
	text := make([]byte, 128)
	if _, err := f.ReadAt(text, int64(binary.LittleEndian.Uint16(header[0x20e:]))+0x200); err != nil {
		return "", errNone
	}
	text, _, ok := bytes.Cut(text, []byte{0})
	release, _, _ := strings.Cut(string(text), " ")
	if !ok || release == "" || strings.ContainsAny(release, "/\\") || strings.Contains(release, "..") {
		return "", errNone
	}
	return release, nil
}

// atBase is AT_BASE: where a program's interpreter is, which loads libraries for it; see getauxval(3).
const atBase = 7

// selfContained says whether this program can be the init of a guest.
func selfContained() error {
	loaded, err := unix.Auxv()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(loaded, func(of [2]uintptr) bool { return of[0] == atBase && of[1] != 0 }) {
		return errors.New("this program is linked with libraries that a guest hasn't: build it with CGO_ENABLED=0")
	}
	return nil
}
