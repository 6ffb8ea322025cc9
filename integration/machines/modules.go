package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"slices"
	"strings"
)

// dependsOn reads from a module what has to be loaded before it.
func dependsOn(module []byte) ([]string, error) {
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

// moduleName is how modules name each other: files may have "-" for "_".
func moduleName(file string) string {
	file = file[strings.LastIndexByte(file, '/')+1:]
	name, _, _ := strings.Cut(file, ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// inOrder is the names with all that they need, what is needed first. needs says
// what a module needs, and whether there is one of that name: what is built in has none.
func inOrder(names []string, needs func(name string) ([]string, bool, error)) (order []string, err error) {
	for _, name := range names {
		deps, isModule, err := needs(name)
		if err != nil {
			return nil, err
		}
		if !isModule || slices.Contains(order, name) {
			continue
		}
		before, err := inOrder(deps, needs)
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

// series is a release without what changes from one update to the next.
func series(release string) string {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 2 {
		return release
	}
	return parts[0] + "." + parts[1]
}
