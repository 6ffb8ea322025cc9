// Package files looks at the paths that a run's system calls name, and never decides.
//
//	target: openat(2) ─▶ filter: SECCOMP_RET_USER_NOTIF ─▶ listener ─▶ Watcher.Take
//	   ▲                                                                 │ look
//	   └────────── the kernel makes the call itself ◀── Continue ◀───────┘ └▶ Observer
//
// Each call is answered with "go on" (SECCOMP_USER_NOTIF_FLAG_CONTINUE), so whatever
// was read of the caller, its memory, its directory, what is at the path, is for words
// alone: another thread may change it right after, and all that comes of that is a wrong
// line in a log. The walls are mounts, Landlock and the policy of system calls, which
// is asked before: what it refuses is not seen here.
//
// watcher_linux.go takes calls and call_linux.go knows where they name paths; look_linux.go looks at what is
// there, caller_linux.go reads who asks, log.go keeps what the rules refuse.
//
// # What is seen
//
// Calls, and not a library's functions: so also those of statically linked programs, of
// every thread and of every child. Paths are made absolute as the caller means them, by
// its own directory or descriptor; links in them are left as they are. What is there is
// asked below the caller's own root with O_PATH, which opens nothing, and never through
// a magic link of /proc.
//
// # What is not seen
//
// What the kernel opens by itself: the interpreter that a script or an ELF file names.
// What is done with a descriptor that was opened before, and with one that was passed.
// What io_uring would open, which no policy but one of the user's own allows. Callers
// that can't be looked into are counted ([Watcher.Unseen]).
//
// # Nothing hangs
//
// A few goroutines look. When more calls wait than they are to have, or one look takes
// too long, because a file system doesn't answer, the call goes on unseen.
package files
