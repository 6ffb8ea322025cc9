#include "textflag.h"

// entry is the first instruction of the process, in builds with -ldflags '-E main.entry'. It has timers be up to 1 ms
// late before the Go runtime begins: the monitor, which the runtime then starts as a thread, wakes up every 70 us
// otherwise, for a tenth of the CPU of a short run. Package supervisor takes it back on the thread that goes on.
TEXT ·entry(SB),NOSPLIT|NOFRAME,$0
	MOVL	$157, AX // prctl
	MOVL	$29, DI  // PR_SET_TIMERSLACK
	MOVL	$1000000, SI
	SYSCALL
	JMP	_rt0_amd64_linux(SB)
