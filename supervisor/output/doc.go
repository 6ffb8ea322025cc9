// Package output moves the bytes of a run between the caller and the target:
// the target's two output streams (or its pty) to the caller's, each under a
// cap, and the caller's standard input to the target.
//
//	target ──▶ pipe of ours ──▶ Pump ──▶ the caller's stdout
//	target ──▶ pipe of ours ──▶ Pump ──▶ the caller's stderr
//	target ◀── pipe of ours ◀── Pump ◀── the caller's stdin
//	target ◀─▶ pty          ◀─▶ Pump ◀─▶ the caller's terminal, while [Keys.Wanted]
//
// The target never holds the caller's own descriptor, so it can neither seek,
// nor reopen, nor change the mode of what is behind it. Not even a pipe that is
// open for reading only: opened again through /proc/self/fd it can be written,
// and what is written there is read by whoever of the caller's reads next.
//
// What the target leaves of its standard input is there for the next reader: a
// file's offset is set back; bytes taken out of a pipe can't be put back, so an
// anonymous pipe is relayed by tee(2), which takes none out; see [Tee]. Sockets,
// terminals, other devices and named FIFOs are read ahead of the target; a terminal that
// isn't raw by a line, and only in line mode with echo: else somebody else of the pipeline
// reads keys or a password there.
//
// One goroutine on one thread, in poll(2), serves everything. It never blocks
// on a destination: pipes and terminals are opened a second time for a file
// description with O_NONBLOCK of its own (setting the flag on the caller's would
// change it for everybody who shares it), sockets take MSG_DONTWAIT. Where the
// second open is refused (another user's terminal), writes are kept so small
// that poll's answer holds.
//
// pump_linux.go is that loop. stream_linux.go and dest_linux.go are one output and where it goes, limit.go its cap;
// stdin_linux.go decides how the caller's input comes, by tee_linux.go or input_linux.go.
//
// What happens when a destination fails:
//
//   - nobody reads any more (EPIPE): the target's end is closed too, so the
//     target dies of SIGPIPE, or sees EPIPE, just as it would without us:
//     "confine -- yes | head -1" ends at once;
//   - any other error (ENOSPC, EBADF because the caller closed it): the rest is
//     drained and dropped, the error is kept for the report.
//
// Writes here are raw system calls on a thread that blocks SIGPIPE and SIGXFSZ,
// so neither signal can end the supervisor. An *os.File on descriptor 1 or 2
// would: the Go runtime raises SIGPIPE for those.
//
// Current limitations: what the target wrote to one stream and what it wrote to
// the other arrive in order only as far as poll(2) sees them apart, as with any
// pair of pipes. A regular file given as standard input is at its end when it is
// at its end: a target that waits for it to grow waits in vain.
// A pipe that others read at the same time as a Tee gives them the same bytes as
// the target, or loses some: without us each byte goes to one of them. If the
// supervisor is killed by SIGKILL, what the target read since the last tee, at
// most what one pipe holds, is read again by the next reader. Through a Tee the
// target sees what it has been given at a time, not all that its caller's pipe
// holds, and a target that writes to its own standard input may wait for good:
// that pipe is full whenever there is anything in it. Where a filter around us
// refuses tee, a pipe is read ahead like a FIFO.
package output
