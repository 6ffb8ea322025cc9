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
