package seccomp

import (
	"fmt"
	"strconv"
	"strings"
)

// Disassemble writes the program down, one instruction a line, with the names of
// architectures and calls where they are compared with:
//
//	     0  ld arch
//	     1  jne AUDIT_ARCH_X86_64, L412
//	     2  ld nr
//	L7:  3  jge 257 openat, L90
//
// A jump that names one label goes on below when it isn't taken.
func (f *Filter) Disassemble() string {
	// What the accumulator holds before each instruction: "nr", "arch", "arg", or "?" where ways
	// meet that differ. Jumps go forward only, so that one pass is enough.
	holds := make([]string, len(f.Program)+1)
	labels := make([]bool, len(f.Program)+1)
	for at, w := range f.Program {
		after := holds[at]
		if uint16(w>>48) == opLoad {
			after, _, _ = strings.Cut(loaded(uint32(w)), ".")
			after = strings.TrimRight(after, "012345")
		}
		for _, to := range successors(at, w) {
			if old := holds[to]; old == "" || old == after {
				holds[to] = after
			} else {
				holds[to] = "?"
			}
			labels[to] = labels[to] || to != at+1 || uint16(w>>48) == opJump
		}
	}
	names := make([]string, len(labels))
	for at, n := 0, 0; at < len(labels); at++ {
		if labels[at] {
			n++
			names[at] = "L" + strconv.Itoa(n)
		}
	}
	var b strings.Builder
	for at, w := range f.Program {
		label := ""
		if names[at] != "" {
			label = names[at] + ":"
		}
		fmt.Fprintf(&b, "%-6s %4d  %s\n", label, at, f.table.instruction(at, w, holds[at], names))
	}
	return b.String()
}

// successors are the instructions that can be next; of a branch, the one for yes first.
func successors(at int, w uint64) []int {
	switch uint16(w >> 48) {
	case opRet:
		return nil
	case opJump:
		return []int{at + 1 + int(uint32(w))}
	case opJeq, opJgt, opJge:
		return []int{at + 1 + int(uint8(w>>40)), at + 1 + int(uint8(w>>32))}
	}
	return []int{at + 1}
}

// jumps are the names of conditional jumps, and of their contraries.
var jumps = [...][2]string{opJeq: {"jeq", "jne"}, opJgt: {"jgt", "jle"}, opJge: {"jge", "jlt"}}

// instruction is one in words; holds is what the accumulator holds, names are the labels.
func (t *Table) instruction(at int, w uint64, holds string, names []string) string {
	k := uint32(w)
	switch op := uint16(w >> 48); op {
	case opLoad:
		return "ld " + loaded(k)
	case opAnd:
		return "and " + hexadecimal(k)
	case opJump:
		return "ja " + names[at+1+int(k)]
	case opRet:
		return "ret " + returned(k)
	case opJeq, opJgt, opJge:
		to := successors(at, w)
		word, operand, yes, no := jumps[op], " "+t.operand(holds, k)+", ", names[to[0]], names[to[1]]
		switch {
		case to[1] == at+1:
			return word[0] + operand + yes
		case to[0] == at+1:
			return word[1] + operand + no
		}
		return word[0] + operand + yes + ", else " + no
	}
	return fmt.Sprintf(".word %#016x", w)
}

// operand is what the accumulator is compared with, by name where it is known what
// it is.
func (t *Table) operand(holds string, k uint32) string {
	switch {
	case holds == "arch" && k == amd64.audit:
		return "AUDIT_ARCH_X86_64"
	case holds == "arch" && k == arm64.audit:
		return "AUDIT_ARCH_AARCH64"
	case holds == "nr" && k == x32Bit:
		return "0x40000000 x32"
	case holds == "nr":
		return strings.TrimSuffix(strconv.FormatUint(uint64(k), 10)+" "+t.name(k), " ")
	}
	return hexadecimal(k)
}

func hexadecimal(k uint32) string { return "0x" + strconv.FormatUint(uint64(k), 16) }

// loaded names a word of struct seccomp_data.
func loaded(offset uint32) string {
	switch {
	case offset == offNr:
		return "nr"
	case offset == offArch:
		return "arch"
	case offset < offArgs || offset >= offArgs+48 || offset%4 != 0:
		return "[" + strconv.FormatUint(uint64(offset), 10) + "]"
	}
	half := [...]string{"low", "high"}[offset/4%2]
	return "arg" + strconv.FormatUint(uint64((offset-offArgs)/8), 10) + "." + half
}
