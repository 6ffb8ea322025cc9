// Package emulate makes the socket calls of a run for which no network namespace can be had. The system call filter
// hands on the calls that name a destination (package denials). They are made here, on a duplicate of the
// caller's socket (pidfd_getfd), with an address of ours:
//
//	target ── connect(A) ──▶ filter ── listener ──▶ A is read once, judged
//	   │                                              │
//	   └─ its own socket ◀── connect(ours) ───────────┘ ──▶ a flow of the gateway (package egress)
//
// calls_linux.go dispatches calls and caller_linux.go reads the caller's memory and sockets; redirect_linux.go
// redirects TCP, relay_linux.go and filter_linux.go datagrams, unix_linux.go unix sockets; send_linux.go and
// receive_linux.go are the calls whose addresses lie in memory.
//
// A is never read again, and no call that could send goes on by itself after it was checked
// (SECCOMP_USER_NOTIF_FLAG_CONTINUE): another thread may overwrite the address, or put
// another socket under the number. A TCP socket is connected to one of ours on loopback, which
// knows both ends of the connection before it comes and resets all others. Each destination of
// datagrams has a socket of ours, connected to the caller's; what it receives is shown to be from that
// destination. Our resolver answers, whichever is asked.
//
// Unix sockets can't be excepted: the number that is one now may be another's then. A
// name leads to what was bound inside and to nothing else, by the kernel's own list of
// sockets. With messages go descriptors (SCM_RIGHTS), and no credentials.
//
// What is otherwise there: getpeername(2) and SO_PEERCRED tell of the supervisor;
// no TCP port is listened on; names in the host's /etc/hosts are addresses, which
// rules about names don't allow; a process that can't be looked into
// (PR_SET_DUMPABLE) reaches nothing; control messages about interfaces are dropped,
// and MSG_ZEROCOPY and many socket options are refused. Before Linux 5.19 a signal may
// have a message sent twice. Each of these calls costs two switches of processes.
//
// Who has a UDP socket could hear whatever others send to its port. No call can be refused
// for that: bind(2) of a unix socket has to go on by itself, with whatever socket is under
// the number then, and write(2) binds, too. So socket(2) of UDP is made here, and the caller is
// given the socket (SECCOMP_IOCTL_NOTIF_ADDFD, Linux 5.9; before there are no such sockets) with a
// filter (SO_ATTACH_FILTER) that drops all but what comes over lo from ports of ours. A
// port of ours stays bound until the run ends, so nobody else on the host can send from it but by
// CAP_NET_RAW. The filter grows with the ports; the options that would replace it are refused by registers.
// Errors (MSG_ERRQUEUE) pass by filters and quote what their sender likes: they are taken
// here, and nothing of them is told but that there was one. How many datagrams were dropped can be counted
// (SO_MEMINFO). A server inside hears nobody, so not its own clients over loopback either. These sockets' memory counts as the supervisor's, so there
// are at most 512 at one time.
package emulate
