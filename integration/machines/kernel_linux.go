package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/confine-run/confine/internal/initramfs"
)

// kernelFiles are what a machine needs of a kernel's package.
type kernelFiles struct {
	version string
	image   string
	modules []string // in the order of loading
}

// fetchKernel has the package downloaded and unpacked, once for each version.
func fetchKernel(c *cache, a *archive, k kernel) (*kernelFiles, error) {
	v := a.found[k.pattern]
	recipe, err := digest(modules)
	if err != nil {
		return nil, err
	}
	dir, err := c.get("kernels", v.Name+"_"+v.Version+"_"+recipe, func(path string) error {
		return unpackKernel(a, path, v)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.Name, err)
	}
	order, err := os.ReadFile(filepath.Join(dir, "order"))
	if err != nil {
		return nil, err
	}
	files := &kernelFiles{version: v.Version, image: filepath.Join(dir, "vmlinuz")}
	for _, m := range strings.Fields(string(order)) {
		files.modules = append(files.modules, filepath.Join(dir, m))
	}
	return files, nil
}

// unpackKernel leaves in dir the image, the modules that are wanted, and their order.
func unpackKernel(a *archive, dir string, v version) error {
	whole := filepath.Join(dir, "whole")
	if err := os.MkdirAll(whole, 0o755); err != nil {
		return err
	}
	deb, err := a.download(dir, v)
	if err != nil {
		return err
	}
	if _, err := output("", "dpkg-deb", "-x", deb, whole); err != nil {
		return err
	}
	images, _ := filepath.Glob(filepath.Join(whole, "boot", "vmlinuz-*"))
	if len(images) != 1 {
		return fmt.Errorf("%s has not one kernel: %q", deb, images)
	}
	if err := os.Rename(images[0], filepath.Join(dir, "vmlinuz")); err != nil {
		return err
	}
	order, err := takeModules(whole, dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "order"), []byte(strings.Join(order, "\n")), 0o644); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(whole), os.Remove(deb))
}

// takeModules copies modules, uncompressed, with those that they need.
func takeModules(whole, dir string) (files []string, err error) {
	all := map[string]string{}
	err = filepath.WalkDir(whole, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(d.Name(), ".ko") {
			all[initramfs.ModuleName(path)] = path
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	needs := func(name string) ([]string, bool, error) {
		path, ok := all[name]
		if !ok {
			return nil, false, nil
		}
		module, err := readModule(path)
		if err != nil {
			return nil, true, err
		}
		deps, err := initramfs.DependsOn(module)
		if err != nil {
			return nil, true, fmt.Errorf("%s: %w", path, err)
		}
		return deps, true, os.WriteFile(filepath.Join(dir, name+".ko"), module, 0o644)
	}
	order, err := initramfs.InOrder(modules, needs)
	for _, name := range order {
		files = append(files, name+".ko")
	}
	return files, err
}

func readModule(path string) ([]byte, error) {
	if strings.HasSuffix(path, ".xz") {
		text, err := output("", "xz", "-dc", path)
		return []byte(text), err
	}
	return os.ReadFile(path)
}
