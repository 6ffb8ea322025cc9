// Package landlock compiles a [view.View] into a Landlock ruleset. It
// only computes: the ruleset is data that the child makes and the target puts on
// itself, right before its system call filter.
//
// # Three uses
//
// [Under] is a second layer, below a mount namespace: one rule for the root inside,
// and one for each place that can be written to. The namespace is what holds; the
// rules hold what it would let through if it ever failed: a way out to another root,
// a mount that lost its flags, mknod, another's memory by ptrace.
//
// [Unix] is what stands below a mount namespace where no second layer is wanted: a
// read-only mount keeps nobody from connecting to what is bound in it, at whatever time.
//
// [Alone] is all there is where the host grants no namespaces. Its rules are about
// the caller's own tree, in which Landlock can allow and never deny. So a tree with
// something hidden or protected in it is taken apart: the directories on the way
// get what everything below them may have, and what stands beside the way when the
// plan is made gets the rest, name by name. What that costs, and what Landlock
// doesn't know at all, is in the ruleset as [Limit]s, for the ledger and explain. It is always less
// than was asked for in files that can be opened, and never more.
//
// # Versions
//
//	ABI  Linux  adds                               without it
//	1    5.13   reading, writing, executing,       no rules at all
//	            making and removing names, ptrace
//	2    5.19   REFER: from one directory to       nothing can be renamed or linked to
//	            another                            another directory
//	3    6.2    TRUNCATE                           truncate(2) empties what can't be opened
//	4    6.7    bind and connect of TCP            no rules about TCP
//	5    6.10   IOCTL_DEV                          device nodes in allowed trees answer ioctl
//	6    6.12   scopes: abstract sockets, signals  these reach the caller's other processes
//	7    6.15   flags of the audit log             nothing of ours: a program is not logged
//	                                               but the one that restricted itself
//	8    7.0    restricting all threads            nothing of ours: there is one
//	9    7.1    RESOLVE_UNIX                       unix sockets of the host's are connected to
//	                                               by path
//
// A newer kernel is used as the newest of these.
//
// # What this does not stop
//
//   - Names: stat, access, readlink and chdir work everywhere. So do chmod, chown,
//     utime and extended attributes, on what belongs to the user.
//   - What is open already, and what is not opened by a path: pipes, sockets, memfds.
//   - connect to a unix socket by its path (before ABI 9).
//   - UDP, MPTCP, SMC, SCTP, raw and all other sockets than TCP.
//   - A name that comes to be, in a directory that was taken apart, after the plan
//     was made: it has fewer rights, not more. In one that wasn't, it has those of the
//     tree, also if it is called as something that is denied ([Later]).
//   - Another hard link to a hidden file, in an allowed tree.
package landlock
