#include "textflag.h"

// entry: see entry_linux_amd64.s. The thread-local storage isn't looked at here, and the linker need not know of the room.
TEXT ·entry(SB),NOSPLIT|NOFRAME,$0
	MOVD	RSP, R0
	SUB	$16384, R0, R1
	MOVD	R1, RSP
	MOVD	·begin(SB), R26
	MOVD	(R26), R1
	CALL	(R1)
	MOVD	R0, RSP
	JMP	_rt0_arm64_linux(SB)
