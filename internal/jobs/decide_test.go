package jobs

import (
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	rec := func(state State, run, attempt int, change ...func(*Record)) *Record {
		r := &Record{Run: run, State: state, Attempt: attempt, Worker: "other", Claim: "c"}
		for _, f := range change {
			f(r)
		}
		return r
	}
	mine := func(r *Record) { r.Worker = "me" }
	cancel := func(r *Record) { r.Cancel = true }
	seal := func(r *Record) { r.Seal = true }
	for _, c := range []struct {
		name string
		r    *Record
		run  int
		with func(*Situation)
		want Action
		give Reason
	}{
		{name: "nobody has begun", want: Start},
		{name: "it has waited for too long", with: func(s *Situation) { s.Age = time.Minute }, want: Give, give: ReasonExpired},
		{name: "it has ended", r: rec(Done, 1, 1), want: Drop},
		{name: "it was given up", r: rec(Dead, 1, 3), want: Drop},
		{name: "it was cancelled before it began", r: rec(Cancelled, 1, 0, seal), want: Seal},
		{name: "a worker runs it of which nobody knows that it is gone", r: rec(Running, 1, 1), want: Ask},
		{name: "a worker that is gone ran it", r: rec(Running, 1, 1), with: func(s *Situation) { s.Gone = true }, want: Start},
		{name: "a worker that is gone ran it, and it is old", r: rec(Running, 1, 1), with: func(s *Situation) { s.Gone, s.Age = true, time.Hour }, want: Give, give: ReasonExpired},
		{name: "the last of the workers that it may kill is gone", r: rec(Running, 1, 3), with: func(s *Situation) { s.Gone = true }, want: Give, give: ReasonAttempts},
		{name: "a worker that is gone ran it, and it is to be cancelled", r: rec(Running, 1, 3, cancel), with: func(s *Situation) { s.Gone = true }, want: Cancel},
		{name: "a worker runs it, and it is to be cancelled", r: rec(Running, 1, 1, cancel), want: Ask},
		{name: "this worker runs it", r: rec(Running, 1, 1, mine), with: func(s *Situation) { s.Mine = true }, want: Leave},
		{name: "this worker has written that it runs it, and never heard so", r: rec(Running, 1, 1, mine), want: Start},
		{name: "it was given back", r: rec(Queued, 1, 0), want: Start},
		{name: "it was given back, and is to be cancelled", r: rec(Queued, 1, 0, cancel), want: Cancel},
		{name: "it is to run once more", r: rec(Done, 1, 1), run: 2, want: Start},
		{name: "it is to run once more, and its other run was cancelled", r: rec(Cancelled, 1, 3, seal, cancel), run: 2, want: Start},
		{name: "it has run once more already", r: rec(Running, 2, 1), run: 1, want: Drop},
		{name: "it is to run once more, while it runs", r: rec(Running, 1, 1), run: 2, want: Leave},
	} {
		s := &Situation{Job: &Job{Run: max(c.run, 1), MaxAttempts: 3, TTL: 30}, Kept: Kept{Record: c.r}, Me: "me"}
		if c.with != nil {
			c.with(s)
		}
		if v := Decide(s); v.Do != c.want || v.Reason != c.give {
			t.Errorf("%s: %d %q, want %d %q", c.name, v.Do, v.Reason, c.want, c.give)
		}
	}
}

// TestDecideGoesByTheRecord: whatever the record, a job that has ended is not started, and one that others run isn't either.
func TestDecideGoesByTheRecord(t *testing.T) {
	for _, state := range []State{Queued, Running, Done, Cancelled, Dead} {
		for bits := range 64 {
			bit := func(n int) bool { return bits>>n&1 == 1 }
			r := &Record{Run: 1, State: state, Attempt: 1, Worker: "other", Cancel: bit(0), Seal: bit(1)}
			if bit(2) {
				r.Worker = "me"
			}
			s := &Situation{Job: &Job{Run: 1, MaxAttempts: 3}, Kept: Kept{Record: r}, Me: "me", Mine: bit(3), Gone: bit(4)}
			v := Decide(s)
			if v.Do == Start && (state.Final() || r.Cancel || state == Running && r.Worker == "other" && !s.Gone || state == Running && s.Mine) {
				t.Errorf("%+v, mine %v, gone %v: it is started", r, s.Mine, s.Gone)
			}
			if (v.Do == Drop || v.Do == Seal) != state.Final() {
				t.Errorf("%+v: the message is dropped: %v", r, v.Do)
			}
		}
	}
}
