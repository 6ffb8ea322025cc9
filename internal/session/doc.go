// Package session is "confine session": sandboxes that stay, each with a supervisor of its own in the background.
//
// "start" starts this program again in the background ([hold]): it opens one sandbox, with the options of a run, and serves it by the
// API of package serve on a socket of the caller's only. All other commands are clients of that socket. A session ends
// when it is stopped, when its lifetime or idle time is over, or when the process named by --owner-pid is gone; what is left then
// is a file that says why, for a day.
//
// The files of a session are in DIR/ID (0700), where DIR is $XDG_RUNTIME_DIR/confine/sessions, or one in the temporary directory that
// belongs to the user: "sock", "session" with what it is, and "ended" when it has ended.
package session
