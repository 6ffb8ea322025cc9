package initramfs

import (
	"bytes"
	"debug/elf"
	"fmt"
	"slices"
	"strings"
)

// DependsOn reads from a module what has to be loaded before it.
func DependsOn(module []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("no section .modinfo")
	}
	text, err := section.Data()
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(string(text), "\x00") {
		if list, ok := strings.CutPrefix(line, "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}

// ModuleName is how modules name each other: files may have "-" for "_".
func ModuleName(file string) string {
	file = file[strings.LastIndexByte(file, '/')+1:]
	name, _, _ := strings.Cut(file, ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// InOrder is the names with all that they need, what is needed first. needs says
// what a module needs, and whether there is one of that name: what is built in has none.
func InOrder(names []string, needs func(name string) ([]string, bool, error)) (order []string, err error) {
	for _, name := range names {
		deps, isModule, err := needs(name)
		if err != nil {
			return nil, err
		}
		if !isModule || slices.Contains(order, name) {
			continue
		}
		before, err := InOrder(deps, needs)
		if err != nil {
			return nil, err
		}
		for _, b := range append(before, name) {
			if !slices.Contains(order, b) {
				order = append(order, b)
			}
		}
	}
	return order, nil
}
