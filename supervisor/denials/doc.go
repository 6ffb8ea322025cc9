// Package denials answers for the kernel when the run's system call filter
// denies a call, and keeps what was denied.
//
//	target: ptrace(2) ─▶ filter: SECCOMP_RET_USER_NOTIF ─▶ listener ─▶ Judge
//	   ▲                                                                 │
//	   └── the policy's errno, or the end of the process ◀── record ─────┘
//
// A call that is denied here never runs: the answer is an errno, and never "go on"
// (SECCOMP_USER_NOTIF_FLAG_CONTINUE). Judge has the registers that the filter has
// seen, which nobody can change any more. What is read of the process, its name
// and strings in its memory, is read once, believed only while the kernel says
// that the process still waits (SECCOMP_IOCTL_NOTIF_ID_VALID), and used for words
// alone.
//
// record.go has the words and keeps denials; listener_linux.go answers, kill_linux.go kills, asked_linux.go hands
// on, and process_linux.go reads who called.
//
// # Supervised calls
//
// Of some calls the policy says that they are refused to the caller and may be made
// for it. They are handed on ([Asked]), nothing is counted, and whoever takes them has
// to think of the same: what is read of the caller may change right after.
//
// # Nothing hangs
//
// While nobody answers, the caller waits, and dies like any other process. Calls
// from before the supervisor has the listener wait for it. When the listener is
// closed the kernel answers ENOSYS to whoever waits, and from then on to each
// denied call; it is closed after the end of the tree. A process that is gone when
// it is to be answered is none of ours any more.
//
// # Kills
//
// Where the policy kills, the process is sent SIGSYS, and then its call is answered
// with EPERM, so that it dies of the signal on its way back. One that blocks,
// ignores or handles SIGSYS, or is still there a moment later, is sent SIGKILL.
//
// # Bounds
//
// Equal denials are counted, the first [most] different ones are kept, and all
// others are counted together.
//
// # Current limitations
//
// A call that a signal interrupts before it was heard of here is not denied by us
// but by the interruption (EINTR): it hasn't run, and isn't counted, and under a
// policy that kills its process lives. Before Linux 5.19 that goes for calls that
// were heard of, too. Threads of a process that is to be killed run on until it is.
package denials
