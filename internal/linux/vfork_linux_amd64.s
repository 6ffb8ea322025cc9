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

// func rawThread(flags, stack uintptr, f *forker) (tid, errno uintptr)
//
// The new thread has this one's thread-local storage, in which forkerMain looks for nothing.
TEXT ·rawThread(SB),NOSPLIT,$0-40
	MOVQ	flags+0(FP), DI
	MOVQ	stack+8(FP), SI
	MOVQ	f+16(FP), R12
	MOVQ	$0, DX
	MOVQ	$0, R10
	MOVQ	$0, R8
	MOVQ	$56, AX // clone
	SYSCALL
	CMPQ	AX, $0
	JEQ	thread
	CMPQ	AX, $0xfffffffffffff001
	JLS	ok
	MOVQ	$-1, tid+24(FP)
	NEGQ	AX
	MOVQ	AX, errno+32(FP)
	RET
ok:
	MOVQ	AX, tid+24(FP)
	MOVQ	$0, errno+32(FP)
	RET
thread:
	SUBQ	$16, SP
	MOVQ	R12, 0(SP)
	CALL	·forkerMain(SB)
	INT	$3
