#include "textflag.h"

// func Call(nr uint32) int32
TEXT ·Call(SB), NOSPLIT, $0-12
	MOVL nr+0(FP), AX
	XORL BX, BX
	XORL CX, CX
	XORL DX, DX
	INT  $0x80
	MOVL AX, ret+8(FP)
	RET
