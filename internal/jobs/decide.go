package jobs

import "time"

// Verdict is what a worker does with a message.
type Verdict struct {
	Do     Action
	Reason Reason // of Give
	Detail string // likewise
}

// Action is one of those below.
type Action int

// Actions.
const (
	Start  Action = iota // write that this worker runs it, and if that is accepted run it
	Drop                 // it has ended: the message has no use any more
	Seal                 // likewise, and its record needn't wait for the message any more
	Leave                // somebody runs it: the message comes back
	Cancel               // write that it is cancelled
	Give                 // give it up
	Ask                  // find out whether the worker that runs it is gone, then decide again
)

// Situation is what a worker knows of a message's job. Nothing else counts.
type Situation struct {
	Job  *Job
	Age  time.Duration // of the message
	Kept Kept
	Me   string
	Mine bool // this worker runs it just now
	Gone bool // the worker that runs it by its record is: asked before
}

// Decide says what to do. It changes nothing: whatever is done begins with a write to the record that is refused if the record is
// another by then.
func Decide(s *Situation) Verdict {
	r := s.Kept.Record
	if r == nil || r.Run < s.Job.Run && r.State.Final() {
		return begin(s, 0)
	}
	switch {
	case r.Run != s.Job.Run && (r.Run > s.Job.Run || !r.State.Final()):
		if r.Run > s.Job.Run {
			return Verdict{Do: Drop}
		}
		return Verdict{Do: Leave}
	case r.State.Final() && r.Seal:
		return Verdict{Do: Seal}
	case r.State.Final():
		return Verdict{Do: Drop}
	case r.State == Running && s.Mine:
		return Verdict{Do: Leave}
	case r.State == Running && r.Worker != s.Me && !s.Gone:
		return Verdict{Do: Ask}
	case r.Cancel:
		return Verdict{Do: Cancel}
	}
	return begin(s, r.Attempt)
}

// Late says of a job that has waited for so long that this was too long; empty: it wasn't.
func (j *Job) Late(age time.Duration) string {
	if ttl := j.TTL.Duration(); ttl > 0 && age > ttl {
		return "it was not started within " + ttl.String()
	}
	return ""
}

// begin is for a job that nobody runs.
func begin(s *Situation, attempts int) Verdict {
	if attempts >= s.Job.MaxAttempts {
		return Verdict{Do: Give, Reason: ReasonAttempts, Detail: "it was started " + times(attempts) + ", and no worker came to its end"}
	}
	if late := s.Job.Late(s.Age); late != "" {
		return Verdict{Do: Give, Reason: ReasonExpired, Detail: late}
	}
	return Verdict{Do: Start}
}
