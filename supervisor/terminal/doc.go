// Package terminal is the caller's terminal: raw while the target has a pty of
// its own, given back whenever it isn't ours, and shared between what the target
// prints and what confine itself has to say.
//
// With a pty the caller's keys go to the target's terminal unread, so that
// Ctrl-C and Ctrl-Z mean there what they always mean. When the target is stopped
// by its terminal, confine gives the caller's terminal back and stops too, as a
// job of the caller's shell; see Suspend.
//
// Killed by SIGKILL, confine can't give the terminal back: reset(1) does.
package terminal
