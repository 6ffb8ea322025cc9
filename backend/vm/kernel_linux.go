package vm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend/vm/internal/guest"
	"github.com/confine-run/confine/internal/initramfs"
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

// Modules that a machine needs, where its kernel hasn't them built in, in an order in which they can be loaded; and where they lie.
var (
	modules = []string{
		"virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_console",
		"netfs", "fscache", "9pnet", "9pnet_virtio", "9p", "failover", "net_failover", "virtio_net", "overlay",
	}
	moduleDirs = []string{
		"drivers/virtio", "drivers/char", "drivers/net", "net/9p", "net/core", "fs/9p", "fs/netfs", "fs/fscache", "fs/overlayfs", "lib", "arch/x86/crypto", "crypto",
	}
)

// addModules puts them into the archive, and tells their order.
func (k *kernel) addModules(a *initramfs.Archive) error {
	files := map[string]string{}
	for _, dir := range moduleDirs {
		entries, err := os.ReadDir(filepath.Join(k.modules, "kernel", dir))
		if err != nil {
			continue // it may have none of these
		}
		for _, e := range entries {
			if e.Type().IsRegular() && strings.Contains(e.Name(), ".ko") {
				files[initramfs.ModuleName(e.Name())] = filepath.Join(k.modules, "kernel", dir, e.Name())
			}
		}
	}
	content := map[string][]byte{}
	order, err := initramfs.InOrder(modules, func(name string) ([]string, bool, error) {
		path, ok := files[name]
		if !ok || k.modules == "" {
			return nil, false, nil
		}
		module, err := os.ReadFile(path)
		if err != nil {
			return nil, true, err
		}
		content[name] = module
		if filepath.Ext(path) != ".ko" {
			return nil, true, nil // the kernel unpacks it; what it needs comes before it in the list
		}
		needs, err := initramfs.DependsOn(module)
		if err != nil {
			return nil, true, fmt.Errorf("%s: %w", path, err)
		}
		return needs, true, nil
	})
	if err != nil {
		return err
	}
	names := []string{}
	for _, name := range order {
		base := filepath.Base(files[name])
		names = append(names, base)
		a.File(filepath.Join(guest.Modules[1:], base), 0o644, content[name])
	}
	text, err := json.Marshal(names)
	if err != nil {
		return err
	}
	a.File(filepath.Join(guest.Modules[1:], "order"), 0o644, text)
	return nil
}

// atBase is AT_BASE: where a program's interpreter is, which loads libraries for it; see getauxval(3).
const atBase = 7

// writeInitramfs makes the first file system of a machine: this program as init, and modules.
func (k *kernel) writeInitramfs(to string) error {
	own, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	loaded, err := unix.Auxv()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(loaded, func(of [2]uintptr) bool { return of[0] == atBase && of[1] != 0 }) {
		return errors.New("this program is linked with libraries that a guest hasn't: build it with CGO_ENABLED=0")
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	b := bufio.NewWriterSize(f, 1<<20)
	a := initramfs.To(b)
	a.File("init", 0o755, own)
	if err := k.addModules(a); err != nil {
		return err
	}
	for _, dir := range []string{"dev", "proc", "root", "sys"} {
		a.Dir(dir)
	}
	return errors.Join(a.End(), b.Flush(), f.Close())
}
