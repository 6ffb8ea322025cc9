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
	d := disassembly{f: f, holds: make([]string, len(f.Program)+1)}
	labels := make([]bool, len(f.Program)+1)
	for at, w := range f.Program {
		for _, to := range successors(at, w) {
			d.load(at, to, w)
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
		fmt.Fprintf(&b, "%-6s %4d  %s\n", label, at, d.line(at, w, names))
	}
	return b.String()
}

// disassembly knows what the accumulator holds before each instruction: "nr",
// "arch", "arg", or "?" where ways meet that differ.
type disassembly struct {
	f     *Filter
	holds []string
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

// load notes what the accumulator holds at an instruction after another one. Jumps
// go forward only, so that one pass is enough.
func (d *disassembly) load(at, to int, w uint64) {
	holds := d.holds[at]
	if uint16(w>>48) == opLoad {
		holds = "arg"
		switch uint32(w) {
		case offNr:
			holds = "nr"
		case offArch:
			holds = "arch"
		}
	}
	if old := d.holds[to]; old != "" && old != holds {
		holds = "?"
	}
	d.holds[to] = holds
}

func (d *disassembly) line(at int, w uint64, names []string) string {
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
		word := map[uint16]string{opJeq: "jeq", opJgt: "jgt", opJge: "jge"}[op]
		contrary := map[uint16]string{opJeq: "jne", opJgt: "jle", opJge: "jlt"}[op]
		operand := d.operand(at, k)
		switch {
		case to[1] == at+1:
			return word + " " + operand + ", " + names[to[0]]
		case to[0] == at+1:
			return contrary + " " + operand + ", " + names[to[1]]
		}
		return word + " " + operand + ", " + names[to[0]] + ", else " + names[to[1]]
	}
	return fmt.Sprintf(".word %#016x", w)
}

// operand is what the accumulator is compared with, by name where it is known what
// it is.
func (d *disassembly) operand(at int, k uint32) string {
	t := d.f.table
	switch d.holds[at] {
	case "arch":
		if k == t.audit {
			return map[string]string{"amd64": "AUDIT_ARCH_X86_64", "arm64": "AUDIT_ARCH_AARCH64"}[t.arch]
		}
	case "nr":
		switch name := t.name(k); {
		case name != "":
			return strconv.FormatUint(uint64(k), 10) + " " + name
		case k == x32Bit:
			return "0x40000000 x32"
		}
		return strconv.FormatUint(uint64(k), 10)
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

// returned names SECCOMP_RET_*.
func returned(ret uint32) string {
	switch {
	case ret == retAllow:
		return "allow"
	case ret == retLog:
		return "log"
	case ret == retKillProcess:
		return "kill"
	case ret == retUserNotif:
		return "notify"
	case ret&retActionFull == retErrno:
		if name := errnoName(uint16(ret)); name != "?" {
			return "errno " + name
		}
	}
	return hexadecimal(ret)
}
