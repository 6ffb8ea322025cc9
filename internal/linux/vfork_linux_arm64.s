#include "textflag.h"

// func rawFork(nr, a, b, c uintptr) (pid, errno uintptr)
//
// The return address is in the link register, which the system call preserves.
TEXT ·rawFork(SB),NOSPLIT|NOFRAME,$0-48
	MOVD	nr+0(FP), R8
	MOVD	a+8(FP), R0
	MOVD	b+16(FP), R1
	MOVD	c+24(FP), R2
	MOVD	$0, R3
	MOVD	$0, R4
	SVC
	CMN	$4095, R0
	BCC	ok
	MOVD	$-1, R4
	MOVD	R4, pid+32(FP)
	NEG	R0, R0
	MOVD	R0, errno+40(FP)
	RET
ok:
	MOVD	R0, pid+32(FP)
	MOVD	ZR, errno+40(FP)
	RET

// func rawThread(flags, stack uintptr, f *forker) (tid, errno uintptr)
//
// The new thread has this one's thread-local storage, in which forkerMain looks for nothing.
TEXT ·rawThread(SB),NOSPLIT,$0-40
	MOVD	flags+0(FP), R0
	MOVD	stack+8(FP), R1
	MOVD	f+16(FP), R12
	MOVD	$0, R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$220, R8 // clone
	SVC
	CBZ	R0, thread
	CMN	$4095, R0
	BCC	ok
	MOVD	$-1, R4
	MOVD	R4, tid+24(FP)
	NEG	R0, R0
	MOVD	R0, errno+32(FP)
	RET
ok:
	MOVD	R0, tid+24(FP)
	MOVD	ZR, errno+32(FP)
	RET
thread:
	SUB	$32, RSP
	MOVD	R12, 8(RSP)
	CALL	·forkerMain(SB)
	BRK
