// Package handoff is what the two sides of a run say to each other: the plan
// that goes in, and the messages that come out.
//
//	supervisor                                child (PID 1 inside)
//	    │  clone(new namespaces), exec __child    │
//	    │  write uid_map, gid_map                 │  Go starts
//	    │ ── Child (one frame) ─────────────────▶ │  every set-up step
//	    │ ◀────────────── SetupError ──────────── │  …or: it failed, typed; exit
//	    │ ◀────────────── Ready + descriptors ─── │  everything is built
//	    │                                         │  drop everything, execve
//	    │ ◀────────────── ExecError ───────────── │  …or: execve refused
//	    │ ◀────────────── Started + descriptors ─ │
//	    │ ◀────────────── Stopped ─────────────── │  (pty only) the target was stopped
//	    │ ◀────────────── Exited ──────────────── │  target gone, everything else killed and reaped
//
// The frames travel over one SOCK_STREAM pair, each with its length before it (a
// plan can hold megabytes of argv, which no packet socket takes); nothing of the
// policy is in argv or the environment. The encoding is written once per type and used both
// ways, so that the two directions can't disagree; a frame of another version,
// with bytes left over, or cut short, is refused.
//
// It is a leaf and imports nothing that starts slowly: package initialisation
// is paid at every start of the child.
package handoff
