// Package seccomp compiles policies over system calls to BPF programs, as data.
// It loads nothing: whoever has the program sets no_new_privs and calls
// seccomp(2) with it, last before execve.
//
// Policies are rules by name of call, with conditions on arguments, see [Policy].
// Two ship, default/3 and strict/2, and never change under their version; others
// are files, which the package policyfile reads. The package inspect says what is to be
// said about a policy.
//
//	Builtin, or policyfile.Load ─▶ Policy ─▶ With(additions) ─▶ Compile ─▶ Filter: Program, Notifying
//	                                 │                                       │
//	                                 └ Decide, Cases                         └ Ask, Refusal, Hint
//
// To read: policy.go and decide.go say what a policy means, assemble.go and code.go make
// the program of it, notify.go says what a listener is told, words.go how calls and
// conditions are written. [Policy.Decide] says in Go what a policy does with a call; the
// programs are tested against it, and on the kernel.
//
// # In every policy
//
// Calls of another architecture (i386 on amd64, arm on arm64) and x32 calls are
// refused, under --seccomp-action log, too, and under a file that allows
// everything. A policy file can't change that. execve must be allowed, or there
// is no filter.
//
// Numbers that are not in the table, because the call is newer than it or there
// is none, answer ENOSYS under a policy that refuses by default, whatever the
// action: that is how C libraries learn to fall back on older calls. Under a
// policy that allows by default they are allowed. The table is that of Linux
// 6.15.
//
// # Actions
//
// A rule either says itself what is done, or "deny": that is what
// --seccomp-action says. "refuse" is the same, except that log does not let it
// through. Some calls answer an errno even under kill, because runtimes try them
// and get along without; each such rule has its reason.
//
//	            errno     kill      log
//	allow       allowed   allowed   allowed
//	deny        EPERM     SIGSYS    allowed, logged
//	refuse      EPERM     SIGSYS    EPERM
//	errno E     E         E         E
//	kill        SIGSYS    SIGSYS    SIGSYS
//	log         allowed and logged under each
//
// # Denials
//
// A call that kills, or is answered with EPERM or EACCES, is a denial. Notifying gives the same program with
// denials handed to a listener, which answers as Refusal says and so can name
// them. Other errnos stay as they are: they say that there is no such thing.
//
// # Current limitations
//
// A filter sees registers, not memory: paths, addresses of sockets and the
// flags of clone3 are out of its reach. A process that allows itself io_uring by
// a policy file has what io_uring does unfiltered. Where there is no pid, IPC or
// network namespace, the policies that ship are too wide; lay the additions
// SharedPIDs, SharedIPC and NoNetwork over them, with Policy.With. The addition Network takes something back: the sockets
// that strict refuses, for runs that may reach hosts.
package seccomp
