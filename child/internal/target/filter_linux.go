package target

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// filter is the last step but execve: the system call filter, and whether its
// denials are told to a listener.
//
// The listener is a descriptor of the process that loads the filter, and has to
// get from there to the supervisor. So that process is forked with our own table
// of descriptors (CLONE_FILES), which its execve makes a copy of, without the
// listener, for that is close-on-exec. Nothing between fork and execve opens or
// closes anything else.
type filter struct {
	program  []uint64
	flags    uintptr // of seccomp(2)
	fork     uintptr // of clone(2)
	listener *int32  // -1: none
	pass     uint64  // with this our own execve isn't handed on; 0: it wouldn't be anyway
}

// filters are what is tried in turn: without a listener only where there can't be
// one, which the ledger then says.
func (s *Starter) filters(t *Target) []filter {
	plain := filter{program: t.Seccomp, flags: uintptr(t.SeccompFlags)}
	if len(t.SeccompNotify) == 0 {
		return []filter{plain}
	}
	f := filter{program: t.SeccompNotify, flags: plain.flags | unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
		fork: unix.CLONE_FILES, listener: new(int32), pass: t.SeccompPass}
	*f.listener = -1
	if f.pass != 0 {
		f.program = append(passing(f.pass), f.program...)
	}
	switch {
	case knowsFilterFlags(f.flags | waitKillableRecv):
		f.flags |= waitKillableRecv
	case !knowsFilterFlags(f.flags) && !s.Box.Refuse.NoListener:
		t.noListener = unix.EINVAL
		return []filter{plain}
	}
	if s.Box.Refuse.NoListener {
		return []filter{f}
	}
	return []filter{f, plain}
}

// passArg is an argument that execve doesn't have: the kernel ignores what the register
// holds, and a filter sees it.
const passArg = 3

// passing are the instructions that let our own execve through where execve is handed
// on. Who would answer for it gets the listener only after it, so it would wait
// for ever. The number is in this process's memory alone, which nobody inside can read.
func passing(number uint64) []uint64 {
	const load, equal, ret = 0x20, 0x15, 0x06 // BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
	const offNr, offArch, offArg = 0, 4, 16 + 8*passArg
	insn := func(op, jt, jf, k uint64) uint64 { return op<<48 | jt<<40 | jf<<32 | k }
	return []uint64{
		insn(load, 0, 0, offArch),
		insn(equal, 0, 7, auditArch),
		insn(load, 0, 0, offNr),
		insn(equal, 0, 5, unix.SYS_EXECVE),
		insn(load, 0, 0, offArg),
		insn(equal, 0, 3, number&0xffffffff),
		insn(load, 0, 0, offArg+4),
		insn(equal, 0, 1, number>>32),
		insn(ret, 0, 0, unix.SECCOMP_RET_ALLOW),
	}
}

// waitKillableRecv is SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, since Linux 5.19: a
// call that the supervisor has heard of is not interrupted by signals any more, and
// so not made again, and counted again.
const waitKillableRecv = 1 << 5

// knowsFilterFlags asks with no filter at all: flags that the kernel doesn't know
// are seen first.
func knowsFilterFlags(flags uintptr) bool {
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, 0)
	return errno == unix.EFAULT
}

// taken says whether the filter could not be loaded because of a listener above,
// of which there can be one: this is confine in confine, or in a container whose
// calls are supervised.
func (f *filter) taken(err error) bool {
	e, ok := err.(*linux.CallError)
	return ok && f.listener != nil && e.Name == callSeccomp && e.Errno == unix.EBUSY
}

const callSeccomp = "seccomp"

// load is the call of it.
func (f *filter) load() []linux.Call {
	if len(f.program) == 0 {
		return nil
	}
	insns := make([]unix.SockFilter, len(f.program))
	for i, x := range f.program {
		insns[i] = unix.SockFilter{Code: uint16(x >> 48), Jt: uint8(x >> 40), Jf: uint8(x >> 32), K: uint32(x)}
	}
	program := &unix.SockFprog{Len: uint16(len(insns)), Filter: &insns[0]}
	return []linux.Call{{Name: callSeccomp, Nr: unix.SYS_SECCOMP, Keep: program, Result: f.listener,
		Args: [5]uintptr{unix.SECCOMP_SET_MODE_FILTER, f.flags, uintptr(unsafe.Pointer(program))}}}
}
