// Package process is the backend of Linux: sandboxes of namespaces, cgroups, Landlock and system call filters, or of as
// much of that as the host gives.
//
// # From main to execve and back
//
// One run, in the order in which it happens. The words on the left are functions.
//
//	main.entry, cli.Begin     the first instruction: begins a child, if this looks like a run (linux.First), and then the Go runtime
//	main.main                 is this process the guard of a run (Init), or the command line? An init never gets here: child's own init is its main
//	cli.Main                  words and files → config.Resolve → Policy
//	cli.runConfined           connects streams, terminal and signals
//	Execute, carryOut         waits for its turn, where many runs of the user's start at once, and unpacks an image; then, from the highest tier down:
//	  prepare                 plans, while the child starts:
//	    supervisor.Prepare      the child is cloned into the namespaces of the tier, if it was not begun before, and waits for its plan
//	    newPlan                 the plan and its ledger, see below
//	    Prepared.Begin          as soon as only the cgroup is missing of it: the child begins to build (box.build)
//	    makeGroup               the run's cgroup, meanwhile; then the rest of the plan
//	  Prepared.Run            package supervisor carries the plan out
//	    box.begin               sends the child what the cgroup decides, and what it is to start
//	    child.Main              INSIDE: builds the sandbox by its list of steps, tells that it is Built, and serves
//	      state.exec, fork      the target: a list of calls, the last of which is execve
//	      state.waited          its end is told (Exited); state.close kills and reaps everybody else, and tells (Closed)
//	    box.loop                OUTSIDE: hears what the child tells (box.hear), keeps clocks and limits, until the child's end
//	    box.close, box.tidy     lets go of what there was, and removes what may not be left
//	    outcome.verdict         why it ended → Status
//	    job.report              → Report, with what the ledger came to (job.confirmed)
//	  tier.next               the kernel refused these namespaces: all of it again, one tier lower
//	  explained               what this host has to say about a failure
//	Plan.LastWords            what a command that failed may have lacked
//	cli.Main                  says how it ended, and ends with the exit code of that
//
// A sandbox for many processes comes the same way, by Backend.Open: Prepared.Build in the place of Run, and then
// sandbox.Start for each process.
//
// # What a sandbox stands on
//
// A sandbox for many is written down, restored and forked by what it stands on (snapshots_linux.go, package layers). What is
// written in it is in one tmpfs, the scratch. Where another goes on from there that is never written again: it becomes the
// lower layers of overlays of both, and each gets a new one. So whoever forks gets another box in the same
// place, and nothing is copied; but what runs inside can't be moved to one, and then it is stopped for as long as its
// files are copied to a disk, for the fork alone. A snapshot is the same copy, for whoever wants it later; to
// restore one is to go on in a new box on its layers.
//
//	box of the source      ┌ scratch 1: /tmp, overlays ┐        handed out by the child as mounts in no namespace
//	  fork                 └─────────────┬─────────────┘        (handoff.Built), one for each box that is to stand on it
//	box of the source ── scratch 2 ──────┼────── scratch 3 ── box of the fork
//	                                 snapshots below, if it began with one
//
// # The plan and its ledger
//
// A planner (plan_linux.go) asks one compiler after another: identity; files (filesystem_linux.go, landlock_linux.go);
// network; the filter of system calls; limits, with the cgroup. Each fills in fields of the plan that are its own, and writes
// their lines of the ledger there and then. The ledger begins with what the policy asks for (asked); what no
// compiler writes about is missing, and config.Accept refuses what is missing and may not be. What turns out only when
// the sandbox is built, package supervisor writes over that, where it hears of it.
//
// A plan is made for one tier (tier_linux.go), is data, and is carried out as it is or not at all.
//
// # Afterwards
//
// What is visible, reachable and allowed can be asked of a plan (ask_linux.go). The same evaluator says which accesses
// the rules have refused (files_linux.go), and what to name in the last words (lastwords_linux.go).
package process
