#include "textflag.h"

// entry: see entry_linux_amd64.s.
TEXT ·entry(SB),NOSPLIT|NOFRAME,$0
	MOVD	$167, R8 // prctl
	MOVD	$29, R0  // PR_SET_TIMERSLACK
	MOVD	$1000000, R1
	SVC
	JMP	_rt0_arm64_linux(SB)
