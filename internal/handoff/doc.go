// Package handoff is what the two sides of a run say to each other: what
// goes in, and what comes out.
//
//	supervisor                                child (PID 1 inside)
//	    │  clone(new namespaces), exec __child    │
//	    │  write uid_map, gid_map                 │  Go starts
//	    │ ── Box + descriptors ─────────────────▶ │  every set-up step
//	    │ ── Bounds + cgroups ──────────────────▶ │  …from /proc on
//	    │ ◀────────────── SetupError ──────────── │  …or: it failed, typed; exit
//	    │ ◀────────────── Built + descriptors ─── │  everything stands
//	    │                                         │  drop everything
//	    │ ── Exec + 0, 1, 2 ────────────────────▶ │  fork, execve; any number of times
//	    │ ◀────────────── ExecError ───────────── │  …or: execve refused
//	    │ ◀────────────── Started + descriptors ─ │
//	    │ ◀────────────── Stopped ─────────────── │  (pty only) the process was stopped
//	    │ ◀────────────── Exited ──────────────── │  the process is gone
//	    │ ── Ping ──────────────────────────────▶ │  (at any time in between)
//	    │ ◀────────────── Ping ────────────────── │  whoever waits for work answers
//	    │ ── Close ─────────────────────────────▶ │  …or the last Exec has exited
//	    │ ◀────────────── Closed ──────────────── │  everybody else was killed and reaped
//
// The frames travel over one SOCK_STREAM pair, each with its length before it (a
// Exec can hold megabytes of argv, which no packet socket takes); nothing of the
// policy is in argv or the environment. The encoding is written once per type and used both
// ways, so that the two directions can't disagree; a frame of another version,
// with bytes left over, or cut short, is refused.
//
// It is a leaf and imports nothing that starts slowly: package initialisation
// is paid at every start of the child.
package handoff
