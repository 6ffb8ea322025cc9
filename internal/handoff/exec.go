package handoff

import "time"

// Exec starts one process in a sandbox that is built. Three descriptors come with it, which become
// its 0, 1 and 2.
type Exec struct {
	ID uint32 // the supervisor's name for it; 0 is the first

	Argv []string
	Env  []string // K=V
	Dir  string   // where it starts
	// Last: no other follows. The sandbox ends with it.
	Last bool
	// Audit: what Landlock refuses it after its execve goes to the kernel's audit.
	Audit bool
	// CountTasks: its end says which number a task got last. It is the last one.
	CountTasks bool

	Rlimits []Rlimit
	CPUs    []uint32 // sched_setaffinity

	Seccomp      []uint64 // BPF instructions: code<<48 | jt<<40 | jf<<32 | k
	SeccompFlags uint32
	// SeccompNotify is the same with denials handed to a listener, which goes out with
	// Started. It is tried first; where there can be no listener, Seccomp is loaded.
	SeccompNotify []uint64
	// SeccompPass: execve is handed on, too, and nobody could answer the process's own
	// first one: it passes by this number, which nobody else knows. 0: execve isn't.
	SeccompPass uint64

	// TTY: which of 0, 1, 2 are a pty that the init makes in its own devpts.
	TTY        [3]bool
	Rows, Cols uint16
	// Modes of the pty: the flags of input, output, control and local modes, then the
	// characters. None: as the kernel makes it.
	Modes []uint32
	// Tells: a fourth descriptor comes with the frame. The process has it under the number that the variable TellsVar says.
	Tells bool
}

// MonitorSlack is by how much timers of a Go runtime of ours may be late, that of the child, of the command line, and of a process that tells. The
// runtime's monitor sleeps for 20 us at a time as long as there is something to do: that took a tenth of the child's CPU, and each of 200 starts
// at once woke up 118 times. The thread that such a process begins with, and whatever that starts, has the caller's slack again by PR_SET_TIMERSLACK 0;
// threads that the monitor starts don't.
const MonitorSlack = 4 * time.Millisecond

// TellsVar is in the environment of a process that tells its supervisor something.
const TellsVar = "CONFINE_TELLS"

// Rlimit is one setrlimit.
type Rlimit struct {
	Resource   uint32
	Soft, Hard uint64
}

func (*Exec) kind() Kind { return KindExec }

func (e *Exec) code(c *codec) {
	num(c, &e.ID)
	list(c, &e.Argv, c.str)
	list(c, &e.Env, c.str)
	c.str(&e.Dir)
	c.bool(&e.Last)
	c.bool(&e.Audit)
	c.bool(&e.CountTasks)
	list(c, &e.Rlimits, func(r *Rlimit) {
		num(c, &r.Resource)
		num(c, &r.Soft)
		num(c, &r.Hard)
	})
	list(c, &e.CPUs, func(n *uint32) { num(c, n) })
	list(c, &e.Seccomp, c.u64)
	num(c, &e.SeccompFlags)
	list(c, &e.SeccompNotify, c.u64)
	c.u64(&e.SeccompPass)
	for i := range e.TTY {
		c.bool(&e.TTY[i])
	}
	num(c, &e.Rows)
	num(c, &e.Cols)
	list(c, &e.Modes, func(n *uint32) { num(c, n) })
	c.bool(&e.Tells)
}

// Close ends the sandbox and everybody in it.
type Close struct{}

func (*Close) kind() Kind { return KindClose }

func (*Close) code(*codec) {}

// Ping asks an init that waits for something to do whether it is there. It sends the same back.
type Ping struct{ ID uint32 }

func (*Ping) kind() Kind { return KindPing }

func (p *Ping) code(c *codec) { num(c, &p.ID) }
