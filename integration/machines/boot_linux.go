package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/confine-run/confine/integration/machines/orders"
	"github.com/confine-run/confine/internal/initramfs"
)

// writeInitramfs is the payload, the modules, the orders, the disk, where it has one, and /init.
// Of the modules the machine gets none that it is to lack.
func writeInitramfs(to string, o *orders.Orders, files map[string]string, k *kernelFiles, disk string) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	b := bufio.NewWriter(f)
	c := initramfs.To(b)
	guest := files["guest"]
	for _, module := range k.modules {
		name := filepath.Base(module)
		if slices.Contains(o.Without, initramfs.ModuleName(name)) {
			continue
		}
		o.Modules = append(o.Modules, name)
		files["modules/"+name] = module
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, err := os.ReadFile(files[name])
		if err != nil {
			return err
		}
		c.File(path.Join(orders.Payload[1:], name), 0o755, content)
		if files[name] == guest {
			c.File("init", 0o755, content)
		}
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	c.File(orders.File[1:], 0o644, text)
	if disk != "" {
		content, err := os.ReadFile(disk)
		if err != nil {
			return err
		}
		c.File(orders.Disk[1:], 0o644, content)
	}
	for _, dir := range []string{"dev", "proc", "root", "sys"} {
		c.Dir(dir)
	}
	if err := c.End(); err != nil {
		return err
	}
	return errors.Join(b.Flush(), f.Close())
}
