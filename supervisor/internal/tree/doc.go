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
// measured when RSS alone would be too much or, once it was measured, what has grown since
// (Sample.Bound). Where that is above the limit, everybody is stopped first: on a busy host it
// takes long, and memory would grow meanwhile.
//
// Files in memory need not be mapped by anybody. Two kinds are added: what is in
// the scratch tmpfs, and what memfds hold that some process has a descriptor of.
// The latter are found by a walk over /proc/PID/fd of everybody, each once by
// its inode. What is mapped of both is in the PSS already, as shared memory, so
// that only what they are more than Pss_Shmem is added: nothing counts twice. The walk
// has its own budget (at most every 100 ms, at most a twentieth of a core), goes on
// in the next sample when there are very many descriptors, and is left out
// while all shared memory of the host would fit into what is left of the limit.
// Whether a limit is passed is measured again, and all of the walk, with everybody stopped.
//
// Signals go through the directory descriptor of /proc/PID, which the kernel
// takes for a pidfd (Linux 5.1): the number means nothing outside of the
// namespace, and a number that was reused meanwhile can't be hit.
//
// # Reading order
//
// sample.go has the words; tree_linux.go finds who is there, sample_linux.go reads everybody once, with
// parse.go, ledger.go (time that nobody waited for), measure_linux.go (PSS) and memfd_linux.go behind it.
// watchdog.go holds samples against limits: judge.go what follows, pace.go when the next one is, unmapped.go
// when memfds are looked for. signal_linux.go stops, wakes and kills.
//
// # What can be dodged
//
//   - A parent that ignores SIGCHLD has its children reaped by the kernel, which
//     drops their time. What was last seen of such a child is kept in a
//     ledger, never more than that: time after its last sample is lost, and
//     all of it when the child lived between two samples. Once the ledger has
//     seen such a loss, samples come at the shortest interval.
//   - Memory that is neither in an address space nor in such a file: pipe and
//     socket buffers, page tables, files in a tmpfs that the target mounted itself. RLIMIT_FSIZE, RLIMIT_NOFILE and
//     RLIMIT_NPROC bound some of it.
//   - A memfd that no /proc/PID/fd shows: in flight over a socket, registered with
//     an io_uring, in a descriptor table that a thread has made its own
//     (CLONE_FILES), or of a process whose descriptors the caller may not see. The
//     latter is so for an ordinary user when a process has made itself undumpable
//     and user 0 is not mapped into its user namespace. It is in the PSS where it is mapped.
//     Memfds of huge pages are not seen at all, nor are other huge pages: they come from a pool that the host has set aside.
//   - Shared memory that is mapped and in neither kind of file (anonymous, System V,
//     a memfd that was closed since) hides as much of files that are not mapped:
//     Pss_Shmem doesn't tell them apart. So does all memory of a process whose PSS
//     can't be read, and all PSS before Linux 5.3. Half is counted in any case.
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
