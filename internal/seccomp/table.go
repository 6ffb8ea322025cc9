package seccomp

import (
	"slices"
	"strings"
)

//go:generate go run ./gen/tables
//go:generate go run ./gen/policies

// Table is the system call table of one architecture. The generated ones are
// laid out by the linker, so that they cost nothing at start.
type Table struct {
	arch   string // as runtime.GOARCH
	audit  uint32 // AUDIT_ARCH_*
	x32    bool   // the numbers from x32Bit on are another ABI of the same AUDIT_ARCH_*
	names  []string
	sorted []uint16 // numbers, in the order of their names
}

// x32Bit is __X32_SYSCALL_BIT. Kernels before 5.4 also took x32's own numbers
// 512 to 547 without it.
const x32Bit = 0x40000000

// TableOf gives the table of an architecture as in runtime.GOARCH. The error is an *ArchError.
func TableOf(arch string) (*Table, error) {
	switch arch {
	case "amd64":
		return &amd64, nil
	case "arm64":
		return &arm64, nil
	}
	return nil, &ArchError{arch}
}

// Number gives the number of a call; not every call is on every architecture.
func (t *Table) Number(name string) (nr int, found bool) {
	at, found := slices.BinarySearchFunc(t.sorted, name, func(nr uint16, name string) int { return strings.Compare(t.names[nr], name) })
	if !found {
		return 0, false
	}
	return int(t.sorted[at]), true
}

// name is that of a native call, or "".
func (t *Table) name(nr uint32) string {
	if nr < uint32(len(t.names)) {
		return t.names[nr]
	}
	return ""
}

// native says whether it is a call of this table.
func (t *Table) native(audit, nr uint32) bool { return audit == t.audit && t.name(nr) != "" }

// Calls are the system calls of the architecture, in the order of their numbers.
func (t *Table) Calls() (all []string) {
	for _, name := range t.names {
		if name != "" {
			all = append(all, name)
		}
	}
	return all
}

// Known says whether any architecture has a call.
func Known(name string) bool {
	_, on := amd64.Number(name)
	if !on {
		_, on = arm64.Number(name)
	}
	return on
}

// AllCalls are those of every architecture; some are there twice.
func AllCalls() []string { return append(amd64.Calls(), arm64.Calls()...) }
