package seccomp

//go:generate go run ./gen/tables
//go:generate go run ./gen/policies

// table is the system call table of one architecture. The generated ones are
// laid out by the linker, so that they cost nothing at start.
type table struct {
	arch   string // as runtime.GOARCH
	audit  uint32 // AUDIT_ARCH_*
	x32    bool   // the numbers from x32Bit on are another ABI of the same AUDIT_ARCH_*
	names  []string
	sorted []uint16 // numbers, in the order of their names
}

// x32Bit is __X32_SYSCALL_BIT. Kernels before 5.4 also took x32's own numbers
// 512 to 547 without it.
const x32Bit = 0x40000000

func tableOf(arch string) (*table, error) {
	switch arch {
	case "amd64":
		return &amd64, nil
	case "arm64":
		return &arm64, nil
	}
	return nil, &ArchError{arch}
}

// lookup gives the number of a call; not every call is on every architecture.
func (t *table) lookup(name string) (nr int, found bool) {
	lo, hi := 0, len(t.sorted)
	for lo < hi {
		mid := (lo + hi) / 2
		if t.names[t.sorted[mid]] < name {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(t.sorted) && t.names[t.sorted[lo]] == name {
		return int(t.sorted[lo]), true
	}
	return 0, false
}

func known(name string) bool {
	if _, found := amd64.lookup(name); found {
		return true
	}
	_, found := arm64.lookup(name)
	return found
}

// Calls lists the system calls of an architecture, in the order of their
// numbers.
func Calls(arch string) ([]string, error) {
	t, err := tableOf(arch)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range t.names {
		if name != "" {
			all = append(all, name)
		}
	}
	return all, nil
}
