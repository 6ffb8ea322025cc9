package qemu

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/confine-run/confine/backend/vm/internal/keeper"
	"github.com/confine-run/confine/internal/initramfs"
)

// Modules that a machine needs, where its kernel hasn't them built in, in an order in which they can be loaded; and where they lie.
var (
	modules = []string{
		"virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_console",
		"netfs", "fscache", "9pnet", "9pnet_fd", "9p", "failover", "net_failover", "virtio_net", "overlay",
	}
	moduleDirs = []string{
		"drivers/virtio", "drivers/char", "drivers/net", "net/9p", "net/core", "fs/9p", "fs/netfs", "fs/fscache", "fs/overlayfs", "lib", "arch/x86/crypto", "crypto",
	}
)

// addModules puts them into the archive, and tells their order.
func addModules(a *initramfs.Archive, from string) error {
	files := map[string]string{}
	for _, dir := range moduleDirs {
		entries, err := os.ReadDir(filepath.Join(from, "kernel", dir))
		if err != nil {
			continue // it may have none of these
		}
		for _, e := range entries {
			if e.Type().IsRegular() && strings.Contains(e.Name(), ".ko") {
				files[initramfs.ModuleName(e.Name())] = filepath.Join(from, "kernel", dir, e.Name())
			}
		}
	}
	content := map[string][]byte{}
	order, err := initramfs.InOrder(modules, func(name string) ([]string, bool, error) {
		path, ok := files[name]
		if !ok {
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
		a.File(filepath.Join(keeper.Modules[1:], base), 0o644, content[name])
	}
	text, err := json.Marshal(names)
	if err != nil {
		return err
	}
	a.File(filepath.Join(keeper.Modules[1:], "order"), 0o644, text)
	return nil
}

// newInitramfs makes the first file system of a machine: its init, and modules from a directory.
func newInitramfs(first, from string) (*os.File, error) {
	program, err := os.ReadFile(first)
	if err != nil {
		return nil, err
	}
	f, err := inMemory("initramfs", nil)
	if err != nil {
		return nil, err
	}
	b := bufio.NewWriterSize(f, 1<<20)
	a := initramfs.To(b)
	a.File("init", 0o755, program)
	if err := addModules(a, from); err != nil {
		return nil, err
	}
	for _, dir := range []string{"dev", "proc", "root", "sys"} {
		a.Dir(dir)
	}
	return f, errors.Join(a.End(), b.Flush())
}
