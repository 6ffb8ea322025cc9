#include "textflag.h"

// func rawVfork(flags uintptr, pidfd *int32) (pid, errno uintptr)
//
// The new process returns from here first, on the same stack, and overwrites the
// return address with its next call: it is kept in a register meanwhile.
TEXT ·rawVfork(SB),NOSPLIT|NOFRAME,$0-32
	MOVQ	flags+0(FP), DI
	MOVQ	$0, SI		// the same stack
	MOVQ	pidfd+8(FP), DX
	MOVQ	$0, R10
	MOVQ	$0, R8
	MOVQ	$0, R9
	MOVQ	$56, AX		// SYS_clone
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $0xfffffffffffff001
	JLS	ok
	MOVQ	$-1, pid+16(FP)
	NEGQ	AX
	MOVQ	AX, errno+24(FP)
	RET
ok:
	MOVQ	AX, pid+16(FP)
	MOVQ	$0, errno+24(FP)
	RET
