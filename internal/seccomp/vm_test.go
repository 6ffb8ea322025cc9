package seccomp

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/confine-run/confine/internal/must"
)

// unpack gives the program in the form of x/net/bpf.
func unpack(program []uint64) []bpf.RawInstruction {
	raw := make([]bpf.RawInstruction, len(program))
	for i, w := range program {
		raw[i] = bpf.RawInstruction{Op: uint16(w >> 48), Jt: uint8(w >> 40), Jf: uint8(w >> 32), K: uint32(w)}
	}
	return raw
}

// machine runs programs on struct seccomp_data.
type machine struct {
	vm   *bpf.VM
	data [64]byte
}

func newMachine(t testing.TB, insns []bpf.Instruction) *machine {
	t.Helper()
	vm, err := bpf.NewVM(insns)
	if err != nil {
		t.Fatalf("the program is not valid: %v", err)
	}
	return &machine{vm: vm}
}

func load(t testing.TB, program []uint64) *machine {
	t.Helper()
	insns, all := bpf.Disassemble(unpack(program))
	if !all {
		t.Fatal("the program has instructions that are none")
	}
	return newMachine(t, insns)
}

// run gives the program's return value. The VM reads words big-endian, and the
// kernel in the order of the machine: each half of an argument is written
// big-endian, the lower one first.
func (m *machine) run(t testing.TB, audit, nr uint32, args [6]uint64) uint32 {
	t.Helper()
	be := binary.BigEndian
	be.PutUint32(m.data[offNr:], nr)
	be.PutUint32(m.data[offArch:], audit)
	for i, a := range args {
		be.PutUint32(m.data[offArgs+8*i:], uint32(a))
		be.PutUint32(m.data[offArgs+8*i+4:], uint32(a>>32))
	}
	ret, err := m.vm.Run(m.data[:])
	must.Do(t, err)
	return uint32(ret)
}

// classes gives arguments that the policy may tell apart for a call: every value
// it compares with, its neighbours, the same with other bits set in the upper
// half, and every single bit of the masks.
func (p *Policy) classes(name string) [][6]uint64 {
	var per [6][]uint64
	for i := range p.Rules {
		for _, c := range p.Rules[i].Args {
			if !slices.Contains(p.Rules[i].Calls, name) {
				continue
			}
			vs := &per[c.Index]
			*vs = append(*vs, 0, ^uint64(0))
			for _, v := range c.Values {
				*vs = append(*vs, v, v+1, v-1, v|1<<32, v|1<<63, v<<32, ^v, v|c.Mask, v|^c.Bits())
			}
			for b := uint64(1); c.Mask != 0 && b != 0; b <<= 1 {
				if c.Mask&b != 0 {
					*vs = append(*vs, b, b|1<<40, b|0x11)
				}
			}
		}
	}
	all := [][6]uint64{{}, {1, 2, 3, 4, 5, 6}, {1 << 32, 1 << 33, ^uint64(0), 1 << 63, 0xffffffff, 0x80000000}}
	for i, vs := range per {
		slices.Sort(vs)
		vs = slices.Compact(vs)
		if len(vs) == 0 {
			continue
		}
		old := all
		if len(old) > 100 {
			old = old[:100]
		}
		for _, base := range old {
			for _, v := range vs {
				base[i] = v
				all = append(all, base)
			}
		}
	}
	return all
}

// agree holds a program against Decide.
func agree(t *testing.T, p *Policy, tab *Table, a Action, program []uint64) {
	t.Helper()
	m := load(t, program)
	p.everyCall(tab, func(audit, nr uint32, args [6]uint64) {
		want := p.number(tab, audit, nr, args)
		if got := m.run(t, audit, nr, args); got != want.ret(a) {
			t.Fatalf("%s %s %s: arch %#x, call %d %#x: the program answers %#x, the policy %s (%s)",
				p.Version, tab.arch, a, audit, nr, args, got, want.Under(a), want.Rule)
		}
	})
}

// everyCall checks every number from 0 to 1023, x32's, and the ends of the range,
// with every class of arguments, from every architecture.
func (p *Policy) everyCall(tab *Table, check func(audit, nr uint32, args [6]uint64)) {
	const i386, arm, riscv = 0x40000003, 0x40000028, 0xc00000f3
	for nr := range uint32(1024) {
		args := [][6]uint64{{}, {^uint64(0), ^uint64(0)}}
		if int(nr) < len(tab.names) && tab.names[nr] != "" {
			args = p.classes(tab.names[nr])
		}
		for _, v := range args {
			check(tab.audit, nr, v)
		}
		for _, audit := range []uint32{i386, arm, riscv, amd64.audit ^ arm64.audit ^ tab.audit, 0} {
			check(audit, nr, args[0])
			check(audit, nr|x32Bit, args[0])
		}
		check(tab.audit, nr|x32Bit, args[0])
		check(tab.audit, nr|1<<31, args[0])
	}
	for _, nr := range []uint32{x32Bit - 1, x32Bit, x32Bit + 1, 1<<31 - 1, 1 << 31, ^uint32(0) - 1, ^uint32(0)} {
		check(tab.audit, nr, [6]uint64{})
	}
}
