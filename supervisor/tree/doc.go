// Package tree samples and governs the process tree of one run, from outside,
// where no cgroup does it.
//
// # Who is in the tree
//
// The child is PID 1 of its own pid namespace and hands over a descriptor of
// the fresh proc that it mounted there. What that proc lists is exactly the
// namespace: no double fork, no setsid and no nested namespace leaves it, and
// nothing of the host is in it. Where there is no fresh proc, the tree is
// walked from a host pid through /proc/PID/task/TID/children, or by the PPIDs
// of all processes where the kernel lacks that file. A walk can miss a process
// that is being reparented while it goes on; the next one finds it.
//
// PID 1 belongs to the sandbox and not to the target: its threads, memory and
// own CPU time are never counted, and it is never signalled. What it reaped counts.
//
// # What is counted
//
// One read of /proc/PID/stat per process gives state, threads, CPU time and
// RSS. CPU time is user and system time of the living and, through cutime and
// cstime, of everything that was waited for. Memory is RSS as long as the sum
// of it is harmless; PSS, in which a page shared by four processes counts
// once, is the truth and is never more than RSS, so that it need only be
// measured when RSS alone would be too much.
//
// Signals go through the directory descriptor of /proc/PID, which the kernel
// takes for a pidfd (Linux 5.1): the number means nothing outside of the
// namespace, and a number that was reused meanwhile can't be hit.
//
// # What can be dodged
//
//   - A parent that ignores SIGCHLD has its children reaped by the kernel, which
//     drops their time. What was last seen of such a child is kept in a
//     ledger, never more than that: time after its last sample is lost, and
//     all of it when the child lived between two samples. Once the ledger has
//     seen such a loss, samples come at the shortest interval.
//   - Memory that is in no address space is not in PSS: written but unmapped
//     memfds, pipe and socket buffers, page tables, System V segments that
//     nobody has attached. RLIMIT_FSIZE, RLIMIT_NOFILE and RLIMIT_NPROC bound those.
//   - Whatever is done between two samples happens. A limit that is found
//     exceeded has been exceeded; the interval is chosen so that it can't be by much.
//   - A fork can't be refused from outside. The newest tasks are killed until
//     the count is within the limit, and while that goes on there are more.
//     Against a bomb the watchdog depends on getting its turn: on CAP_SYS_NICE,
//     or on the target being in a session and so an autogroup of its own. Where the
//     kernel can hold the number of tasks itself, that is the limit to rely on.
//   - PSS is read under a lock that the memory calls of the target take as well,
//     and waits for them.
//   - A process that is stopped to hold a CPU rate loses a SIGTSTP that
//     arrives in that time, because SIGCONT discards it.
package tree
