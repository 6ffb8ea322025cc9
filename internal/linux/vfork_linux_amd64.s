#include "textflag.h"

// func rawFork(nr, a, b, c uintptr) (pid, errno uintptr)
//
// The new process returns from here first, on the same stack, and overwrites the
// return address with its next call: it is kept in a register meanwhile.
TEXT ·rawFork(SB),NOSPLIT|NOFRAME,$0-48
	MOVQ	nr+0(FP), AX
	MOVQ	a+8(FP), DI
	MOVQ	b+16(FP), SI
	MOVQ	c+24(FP), DX
	MOVQ	$0, R10
	MOVQ	$0, R8
	MOVQ	$0, R9
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $0xfffffffffffff001
	JLS	ok
	MOVQ	$-1, pid+32(FP)
	NEGQ	AX
	MOVQ	AX, errno+40(FP)
	RET
ok:
	MOVQ	AX, pid+32(FP)
	MOVQ	$0, errno+40(FP)
	RET
