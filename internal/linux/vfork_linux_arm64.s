#include "textflag.h"

// func rawSyscall(nr uintptr, args *[5]uintptr) (r, errno uintptr)
//
// See vfork_linux_amd64.s. The return address is in the link register, which the system call preserves.
TEXT ·rawSyscall(SB),NOSPLIT|NOFRAME,$0-32
	MOVD	nr+0(FP), R8
	MOVD	args+8(FP), R12
	MOVD	0(R12), R0
	MOVD	8(R12), R1
	MOVD	16(R12), R2
	MOVD	24(R12), R3
	MOVD	32(R12), R4
	MOVD	$0, R5
	SVC
	CMN	$4095, R0
	BCC	ok
	MOVD	$-1, R4
	MOVD	R4, r+16(FP)
	NEG	R0, R0
	MOVD	R0, errno+24(FP)
	RET
ok:
	MOVD	R0, r+16(FP)
	MOVD	ZR, errno+24(FP)
	RET

// func rawThread(flags, stack, main uintptr, f *forker) (tid, errno uintptr)
//
// The new thread has this one's thread-local storage, in which main looks for nothing. It is called as Go calls it: the
// wrapper of its name here does more in builds with the race detector.
TEXT ·rawThread(SB),NOSPLIT,$0-48
	MOVD	flags+0(FP), R0
	MOVD	stack+8(FP), R1
	MOVD	main+16(FP), R12
	MOVD	f+24(FP), R13
	MOVD	$0, R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$220, R8 // clone
	SVC
	CBZ	R0, thread
	CMN	$4095, R0
	BCC	ok
	MOVD	$-1, R4
	MOVD	R4, tid+32(FP)
	NEG	R0, R0
	MOVD	R0, errno+40(FP)
	RET
ok:
	MOVD	R0, tid+32(FP)
	MOVD	ZR, errno+40(FP)
	RET
thread:
	MOVD	R13, R0
	SUB	$32, RSP // of these 8 are main's, to keep f in
	CALL	(R12)
	BRK
