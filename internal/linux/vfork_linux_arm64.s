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

// func rawThread(flags, stack, tls, main uintptr, f *forker) (tid, errno uintptr)
//
// The compiler may look for a goroutine in the thread-local storage, so the new thread has one that stays: that of the
// thread which makes it is gone when that ends. main is called as Go calls it: the
// wrapper of its name here does more in builds with the race detector.
TEXT ·rawThread(SB),NOSPLIT,$0-56
	MOVD	flags+0(FP), R0
	MOVD	stack+8(FP), R1
	MOVD	main+24(FP), R12
	MOVD	f+32(FP), R13
	MOVD	$0, R2
	MOVD	tls+16(FP), R3
	MOVD	$0, R4
	MOVD	$220, R8 // clone
	SVC
	CBZ	R0, thread
	CMN	$4095, R0
	BCC	ok
	MOVD	$-1, R4
	MOVD	R4, tid+40(FP)
	NEG	R0, R0
	MOVD	R0, errno+48(FP)
	RET
ok:
	MOVD	R0, tid+40(FP)
	MOVD	ZR, errno+48(FP)
	RET
thread:
	MOVD	R13, R0
	SUB	$32, RSP // of these 8 are main's, to keep f in
	CALL	(R12)
	BRK
