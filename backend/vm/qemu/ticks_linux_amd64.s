#include "textflag.h"

// ticks reads the time stamp counter.
TEXT ·ticks(SB),NOSPLIT,$0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET
