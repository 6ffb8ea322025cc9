#include "textflag.h"

// func rawSyscall(nr uintptr, args *[5]uintptr) (r, errno uintptr)
//
// After a clone with CLONE_VM the new process returns from here first, on the same stack, and overwrites the
// return address with its next call: it is kept in a register meanwhile. The raw calls of packages unix and syscall
// do more in builds with the race detector.
TEXT ·rawSyscall(SB),NOSPLIT|NOFRAME,$0-32
	MOVQ	nr+0(FP), AX
	MOVQ	args+8(FP), R13
	MOVQ	0(R13), DI
	MOVQ	8(R13), SI
	MOVQ	16(R13), DX
	MOVQ	24(R13), R10
	MOVQ	32(R13), R8
	MOVQ	$0, R9
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $0xfffffffffffff001
	JLS	ok
	MOVQ	$-1, r+16(FP)
	NEGQ	AX
	MOVQ	AX, errno+24(FP)
	RET
ok:
	MOVQ	AX, r+16(FP)
	MOVQ	$0, errno+24(FP)
	RET

// func rawThread(flags, stack, tls, main uintptr, f *forker) (tid, errno uintptr)
//
// The compiler may look for a goroutine in the thread-local storage, so the new thread has one that stays: that of the
// thread which makes it is gone when that ends. main is called as Go calls it: the
// wrapper of its name here does more in builds with the race detector.
TEXT ·rawThread(SB),NOSPLIT,$0-56
	MOVQ	flags+0(FP), DI
	MOVQ	stack+8(FP), SI
	MOVQ	main+24(FP), R12
	MOVQ	f+32(FP), R13
	MOVQ	$0, DX
	MOVQ	$0, R10
	MOVQ	tls+16(FP), R8
	MOVQ	$56, AX // clone
	SYSCALL
	CMPQ	AX, $0
	JEQ	thread
	CMPQ	AX, $0xfffffffffffff001
	JLS	ok
	MOVQ	$-1, tid+40(FP)
	NEGQ	AX
	MOVQ	AX, errno+48(FP)
	RET
ok:
	MOVQ	AX, tid+40(FP)
	MOVQ	$0, errno+48(FP)
	RET
thread:
	MOVQ	R13, AX
	XORPS	X15, X15
	SUBQ	$16, SP // of these 8 are main's, to keep f in
	CALL	R12
	INT	$3
