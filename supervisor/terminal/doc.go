// Package terminal is the caller's terminal: raw while the target has a pty of
// its own, given back whenever it isn't ours, and shared between what the target
// prints and what confine itself has to say.
//
// Its modes are changed only where it is standard output, and while confine is in its
// foreground. Else a pager after confine may set modes of its own and read the keys.
//
// Where standard input is something else, at the end of a pipeline, programs before confine
// may read lines. Then it follows the modes of the target's pty: while those are of lines
// with echo nothing is touched and no key is read; while a program inside has set others
// (less, vim, a password) it is raw, and keys go to the pty. The modes are asked before output
// is shown, before keys are read, and every 300 ms. A program inside that reads lines from
// /dev/tty without changing the modes waits in vain: that it reads can't be known.
//
// With a pty the caller's keys go to the target's terminal unread, so that
// Ctrl-C and Ctrl-Z mean there what they always mean. When the target is stopped
// by its terminal, confine gives the caller's terminal back and stops too, as a
// job of the caller's shell; see [Terminal.Suspend].
//
// A [Console] is the one place that stderr is written through. The pump that
// relays the target's output reports to its [Console.Guard], so that a line of
// ours always starts at the start of a line, never in the middle of an escape
// sequence or in the colours that the target left behind, and the status line
// is gone before anything else appears. What is interpolated into a line is made
// visible first ([Visible]): no argument, path or host name can move the cursor,
// hide text, or look like a line of ours.
//
// terminal_linux.go takes the terminal and gives it back; console.go writes lines, status.go the status line,
// altscreen.go follows what the target has made of the screen, and visible.go is what may be shown.
//
// When the command died of a SIGINT whose key was passed on, the shell around it has not
// got one: see [Terminal.Pressed].
//
// Killed by SIGKILL, or by a panic outside of the goroutine that runs it, confine can't give
// the terminal back: reset(1) does.
//
// A status line is not drawn while the target uses the alternate screen of the
// terminal, but a full-screen program that doesn't switch to it, and ends a burst of
// output with a newline, can have one drawn over it. What the user types while the
// target reads the terminal through a pipe is echoed by the kernel and not seen here.
package terminal
