#include "textflag.h"

// Each is where a function of libSystem is, by a jump of ours that has the address of a function.

TEXT libc_mach_timebase_info_trampoline<>(SB),NOSPLIT,$0-0
	JMP	libc_mach_timebase_info(SB)
GLOBL	·machTimebaseInfoAddr(SB), RODATA, $8
DATA	·machTimebaseInfoAddr(SB)/8, $libc_mach_timebase_info_trampoline<>(SB)

TEXT libc_proc_listpids_trampoline<>(SB),NOSPLIT,$0-0
	JMP	libc_proc_listpids(SB)
GLOBL	·procListpidsAddr(SB), RODATA, $8
DATA	·procListpidsAddr(SB)/8, $libc_proc_listpids_trampoline<>(SB)

TEXT libc_proc_pid_rusage_trampoline<>(SB),NOSPLIT,$0-0
	JMP	libc_proc_pid_rusage(SB)
GLOBL	·procPidRusageAddr(SB), RODATA, $8
DATA	·procPidRusageAddr(SB)/8, $libc_proc_pid_rusage_trampoline<>(SB)

TEXT libc_proc_pidinfo_trampoline<>(SB),NOSPLIT,$0-0
	JMP	libc_proc_pidinfo(SB)
GLOBL	·procPidinfoAddr(SB), RODATA, $8
DATA	·procPidinfoAddr(SB)/8, $libc_proc_pidinfo_trampoline<>(SB)

TEXT libc_sandbox_check_trampoline<>(SB),NOSPLIT,$0-0
	JMP	libc_sandbox_check(SB)
GLOBL	·sandboxCheckAddr(SB), RODATA, $8
DATA	·sandboxCheckAddr(SB)/8, $libc_sandbox_check_trampoline<>(SB)
