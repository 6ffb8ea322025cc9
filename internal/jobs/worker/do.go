package worker

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/confine-run/confine/internal/jobs"
)

// run is a job from when it has room here until its message is done with.
type run struct {
	d      *delivery
	job    *jobs.Job
	kept   jobs.Kept // as it was read or written last
	claim  string
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
}

func (s *shift) newRun(d *delivery) *run {
	r := &run{d: d, job: d.job, kept: jobs.Kept{Key: d.job.Key}, claim: jobs.NewID(), done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	return r
}

// end ends the job for a reason; the first counts.
func (r *run) end(cause error) { r.cancel(cause) }

// message is what is acknowledged: of the last delivery.
func (s *shift) message(r *run) *delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.d
}

// do does what a message says, as far as that is this worker's to do.
func (s *shift) do(r *run) {
	defer r.cancel(nil)
	err := s.settle(r)
	var quiet *silent
	switch {
	case err == nil:
		_ = s.message(r).Ack()
	case errors.As(err, &quiet):
		s.attend(s.message(r), quiet.worker)
	case errors.Is(err, errLeft):
		_ = s.message(r).NakWithDelay(s.later())
	case errors.Is(err, errAgain):
		_ = s.message(r).Nak()
	default:
		s.say("%s: %v", r.job.Key, err)
		_ = s.message(r).NakWithDelay(s.later())
	}
}

// silent is a worker that runs a job by its record, and of which nothing was heard yet.
type silent struct{ worker string }

func (e *silent) Error() string { return "nothing was heard of the worker " + e.worker + " yet" }

// attend keeps a message until its worker is heard of, or gone: another worker would have to begin to listen anew. It takes no room meanwhile.
func (s *shift) attend(d *delivery, worker string) {
	s.mu.Lock()
	s.attended[d] = true
	d.again = true
	s.mu.Unlock()
	go func() {
		presence := jobs.Silent
		for presence == jobs.Silent && s.beating.Err() == nil {
			select {
			case <-s.beating.Done():
			case <-time.After(s.opts.Lease / 4):
			}
			if now, err := s.peers.See(s.beating, worker); err == nil {
				presence = now
			}
		}
		s.mu.Lock()
		delete(s.attended, d)
		over := s.over
		s.mu.Unlock()
		if presence == jobs.Gone && !over {
			s.keep(d)
			s.poke()
			return
		}
		_ = d.NakWithDelay(s.later())
		s.drop(d)
	}()
}

var (
	errLeft  = errors.New("somebody else runs it")
	errAgain = errors.New("it is to run again")
)

// settle brings the record of a job to where its message has no use any more: nil.
func (s *shift) settle(r *run) error {
	now := &jobs.Situation{Job: r.job, Age: r.d.age, Kept: r.kept, Me: s.lease.Name}
	fresh := r.d.again || r.job.Run > 1 // without, there is no record mostly, and the servers refuse the write if there is one
	for tries := 0; ; tries++ {
		if tries > 20 {
			return errors.New("its record changes all the time")
		}
		if fresh {
			k, err := s.q.Get(r.ctx, r.job.Key)
			if err != nil {
				return err
			}
			r.kept, now.Kept, now.Gone = k, k, false
		}
		fresh = true
		verdict := jobs.Decide(now)
		if verdict.Do == jobs.Ask {
			presence, err := s.peers.See(r.ctx, now.Kept.Worker)
			if err != nil {
				return err
			}
			if presence == jobs.Silent {
				return &silent{now.Kept.Worker}
			}
			if presence == jobs.There {
				return errLeft
			}
			now.Gone = true
			verdict = jobs.Decide(now)
		}
		err := s.follow(r, verdict)
		if !errors.Is(err, jobs.ErrChanged) {
			return err
		}
	}
}

// follow does what was decided.
func (s *shift) follow(r *run, v jobs.Verdict) error {
	switch v.Do {
	case jobs.Drop:
		return nil
	case jobs.Leave:
		return errLeft
	case jobs.Seal:
		next := *r.kept.Record
		next.Seal = false
		_, err := s.q.Put(r.ctx, r.kept, &next)
		return err
	case jobs.Cancel:
		next := *r.kept.Record
		next.State, next.Ended = jobs.Cancelled, time.Now().UTC()
		_, err := s.q.Put(r.ctx, r.kept, &next)
		return err
	case jobs.Give:
		return s.giveUp(r.ctx, r.kept, s.base(r), v.Reason, v.Detail)
	}
	next := s.base(r)
	next.State, next.Attempt = jobs.Running, next.Attempt+1
	next.Worker, next.Claim, next.Host, next.Started = s.lease.Name, r.claim, s.host, time.Now().UTC()
	revision, err := s.q.Put(r.ctx, r.kept, next)
	if err != nil {
		// An answer that was lost leaves it open whether it was accepted.
		k, again := s.q.Get(r.ctx, r.job.Key)
		if again != nil || k.Record == nil || k.Claim != r.claim || k.State != jobs.Running {
			return err
		}
		revision = k.Revision
	}
	r.kept = jobs.Kept{Key: r.job.Key, Revision: revision, Record: next}
	return s.finish(r, s.execute(r))
}

// base is the record of the run that the message asks for.
func (s *shift) base(r *run) *jobs.Record {
	next := &jobs.Record{Job: r.job, Run: r.job.Run}
	if k := r.kept.Record; k != nil && k.Run == r.job.Run {
		next.Attempt, next.Cancel, next.Worker = k.Attempt, k.Cancel, k.Worker
	}
	return next
}

// outcome is what has come of a start: the record as it is to be, or why there is none.
type outcome struct {
	next *jobs.Record
	lost error // it was ended by us
	give jobs.Reason
	why  string // of give
}

// finish writes what has come of a start. It tries for as long as that can count: until somebody else has begun.
func (s *shift) finish(r *run, o outcome) error {
	result := error(nil)
	next := o.next
	switch {
	case errors.Is(o.lost, errCancelled):
		next.State = jobs.Cancelled
	case o.lost != nil:
		// It has not come to an end, and that is no fault of its own: the start doesn't count.
		next = s.base(r)
		next.State, next.Attempt = jobs.Queued, next.Attempt-1
		if result = errAgain; errors.Is(o.lost, errUnable) {
			result = errLeft
		}
	case o.give != "":
		next.State, next.Reason, next.Detail = jobs.Dead, o.give, o.why
	default:
		next.State = jobs.Done
	}
	next.Ended = time.Now().UTC()
	deadline := time.Now().Add(finishTime)
	for {
		var err error
		if next.State == jobs.Dead {
			err = s.giveUp(s.ctx, r.kept, next, next.Reason, next.Detail)
		} else {
			_, err = s.q.Put(s.ctx, r.kept, next)
		}
		if err == nil {
			return result
		}
		k, again := s.q.Get(s.ctx, r.job.Key)
		switch {
		case again != nil:
		case k.Record == nil || k.Claim != r.claim && k.State != jobs.Queued || k.Run != r.job.Run || k.State == jobs.Queued:
			return result // written already, or somebody else's by now
		case k.State.Final():
			return result
		default:
			r.kept = k // somebody wants it cancelled
		}
		if time.Now().After(deadline) {
			return err
		}
		if !errors.Is(err, jobs.ErrChanged) || again != nil {
			time.Sleep(250 * time.Millisecond)
		}
	}
}

// finishTime is for how long a worker tries to say what has come of a job.
const finishTime = 10 * time.Minute

// giveUp writes down that nobody does the job.
func (s *shift) giveUp(ctx context.Context, k jobs.Kept, next *jobs.Record, reason jobs.Reason, detail string) error {
	next.State, next.Reason, next.Detail, next.Ended = jobs.Dead, reason, detail, time.Now().UTC()
	if err := s.q.Bury(ctx, k.Key.String(), &jobs.Letter{Reason: reason, Detail: detail, Job: next.Job}); err != nil {
		return err
	}
	_, err := s.q.Put(ctx, k, next)
	return err
}

// refuse gives up a job that can't have what it asks for.
func refuse(s *shift, d *delivery, reason jobs.Reason, detail string) {
	once(s, d, func(ctx context.Context) error {
		k, err := s.q.Get(ctx, d.job.Key)
		if err != nil || k.Record != nil && (k.Run > d.job.Run || k.Run == d.job.Run && k.State.Final()) {
			return err
		}
		if k.Record != nil && k.State == jobs.Running {
			if presence, err := s.peers.See(ctx, k.Worker); presence != jobs.Gone {
				return errors.Join(err, errLeft)
			}
		}
		return s.giveUp(ctx, k, &jobs.Record{Job: d.job, Run: d.job.Run, Host: s.host}, reason, detail)
	})
}

// unreadable gives up what is no job.
func unreadable(s *shift, d *delivery, why error) {
	once(s, d, func(ctx context.Context) error {
		return s.q.BuryText(ctx, d.Subject(), d.Data(), why)
	})
}

// once does something about a message that is no job to run, and is done with it.
func once(s *shift, d *delivery, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	if err := do(ctx); err != nil {
		_ = d.NakWithDelay(s.later())
		return
	}
	_ = d.Ack()
}

func tempDir(dir string) string {
	if dir == "" {
		return os.TempDir()
	}
	return dir
}
