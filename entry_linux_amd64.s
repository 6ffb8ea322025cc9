#include "textflag.h"

// entry is the first instruction of the process, in builds with -ldflags '-E main.entry'. It calls begin, on the stack far below
// what the kernel has put there, and goes on to the Go runtime with the stack that it gives. A Go function looks for its goroutine in the thread-local
// storage, so there is some, of zeros; and the assembler's way to call one does so before, so that the address is taken from
// a variable.
TEXT ·entry(SB),NOSPLIT|NOFRAME,$0
	MOVL	$158, AX    // arch_prctl
	MOVL	$0x1002, DI // ARCH_SET_FS
	LEAQ	-64(SP), SI
	SYSCALL
	MOVQ	SP, AX
	SUBQ	$16384, SP
	XORPS	X15, X15
	MOVQ	·begin(SB), DX
	MOVQ	(DX), CX
	CALL	CX
	MOVQ	AX, SP
	JMP	_rt0_amd64_linux(SB)
