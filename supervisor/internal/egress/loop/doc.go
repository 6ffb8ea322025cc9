// Package loop serves many TCP connections from one goroutine.
//
//	epoll_wait ─▶ who waits for this descriptor? ─▶ ready tasks, in turn ─▶ epoll_wait
//
// A task is written as if it blocked: it reads, writes, connects and waits in plain
// order. It is a coroutine ([iter.Pull]) that the loop resumes when what it waits for is
// there, so that a byte on its way wakes one thread once, and no scheduler. The runtime's
// own poller wakes a second thread to look for more work each time, which on a busy host
// costs as much as the passing on.
//
// loop_linux.go waits and gives turns, task_linux.go is what has them; conn_linux.go, listen_linux.go and
// dial_linux.go are what tasks wait for.
//
// # Rules
//
// Conn, Go, Do and whatever waits are for tasks of the same loop alone: the loop knows
// which one runs. Only Post, Start and Close may be called by anybody.
//
// A task that would block otherwise (a lock that somebody keeps, a file, a lookup)
// holds up all of them, and goes aside for it: Do.
//
// # Looking twice
//
// After something has come, the loop looks for more for a short time before it sleeps,
// yielding its processor to whoever wants it in between: an answer comes soon, and
// falling asleep and being woken costs more than the wait. It does so only as long as
// that turns out well.
package loop
