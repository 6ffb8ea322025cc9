package worker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/confine-run/confine/internal/jobs"
)

// delivery is a message that this worker has.
type delivery struct {
	jetstream.Msg
	job     *jobs.Job
	kind    *kind
	age     time.Duration
	again   bool // it was delivered before
	rank    int  // of its priority
	arrived time.Time
}

// idleTime is for how long one request waits for a message.
const idleTime = 5 * time.Second

// pull takes messages as long as there is room, those of higher priority first, and starts what fits. The first that doesn't fit waits until
// it does, and all others with it: it would never have its turn otherwise.
func (s *shift) pull(ctx context.Context) {
	arrived := make(chan *delivery)
	var group sync.WaitGroup
	var waiting [3]bool // a request of this priority is open
	closed := make(chan int, len(waiting))
	share := time.NewTicker(patience)
	defer share.Stop()
	for ctx.Err() == nil {
		s.startSome(ctx)
		if room := s.wanted(); room > 0 {
			got := 0
			for rank := range jobs.Priorities {
				if got < room && !waiting[rank] {
					got += s.take(rank, room-got)
				}
			}
			if got > 0 {
				continue
			}
			for rank := range jobs.Priorities {
				if !waiting[rank] {
					waiting[rank] = true
					group.Go(func() {
						s.await(ctx, rank, arrived)
						closed <- rank
					})
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-share.C:
			s.share()
		case <-s.wake:
		case rank := <-closed:
			waiting[rank] = false
		case d := <-arrived:
			s.keep(d)
		}
	}
	// What comes yet is given back at once.
	go func() {
		group.Wait()
		close(arrived)
	}()
	for d := range arrived {
		_ = d.Nak()
		s.kinds.done(d.kind)
	}
}

// wanted is how many messages more there is use for: as many again as run, so that none of those that end waits for the servers, and where
// jobs are short so many more that a request is for several.
func (s *shift) wanted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full || len(s.hand) > 0 && !plus(s.used, s.hand[0].kind.need).Fits(s.opts.Room) && len(s.hand) >= max(1, len(s.running)) {
		return 0
	}
	most := max(1, len(s.running))
	most += 1 + min(s.rate/4, 3*most)
	if len(s.hand) > most/2 {
		return 0
	}
	return most - len(s.hand)
}

// take takes messages that are there, and gives their number.
func (s *shift) take(rank, n int) int {
	batch, err := s.q.Consumer(jobs.Priorities[rank]).FetchNoWait(n)
	if err != nil {
		return 0
	}
	got := 0
	for m := range batch.Messages() {
		got++
		if d := s.read(m, rank); d != nil {
			s.keep(d)
		}
	}
	return got
}

// await waits for a message.
func (s *shift) await(ctx context.Context, rank int, to chan<- *delivery) {
	s.open.Add(1)
	defer s.open.Add(-1)
	once, cancel := context.WithTimeout(ctx, idleTime)
	defer cancel()
	batch, err := s.q.Consumer(jobs.Priorities[rank]).Fetch(1, jetstream.FetchContext(once))
	if err == nil {
		for m := range batch.Messages() {
			if d := s.read(m, rank); d != nil {
				to <- d
			}
		}
		err = batch.Error()
	}
	if err != nil && !errors.Is(err, jetstream.ErrNoMessages) && once.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// read finds out what a message is about. What is no job, or not for this worker, is done with here.
func (s *shift) read(m jetstream.Msg, rank int) *delivery {
	d := &delivery{Msg: m, rank: rank, arrived: time.Now()}
	meta, err := m.Metadata()
	if err != nil {
		return nil
	}
	d.again = meta.NumDelivered > 1
	d.age = time.Since(meta.Timestamp)
	if d.job, err = jobs.Read(m.Subject(), m.Headers(), m.Data()); err != nil {
		unreadable(s, d, err)
		return nil
	}
	if d.kind, err = s.kinds.of(d.job, m.Subject()); err != nil {
		if no, ok := errors.AsType[*refused](err); ok {
			refuse(s, d, jobs.ReasonRefused, no.detail)
		} else {
			_ = m.NakWithDelay(s.later())
			s.say("%s: %v", d.job.Key, err)
		}
		return nil
	}
	if !d.kind.need.Fits(s.opts.Room) { // another one may have more
		if late := d.job.Late(d.age); late != "" {
			refuse(s, d, jobs.ReasonExpired, late)
		} else {
			_ = m.NakWithDelay(s.later())
		}
		s.kinds.done(d.kind)
		return nil
	}
	return d
}

// later is when a message comes back that this worker can do nothing with.
func (w *Worker) later() time.Duration { return w.q.AckWait() / 6 }

// keep takes a message in hand.
func (s *shift) keep(d *delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[d] = true
	s.hand = append(s.hand, d)
	slices.SortStableFunc(s.hand, func(a, b *delivery) int { return cmp.Compare(a.rank, b.rank) })
}

// drop lets go of one.
func (s *shift) drop(d *delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, d)
	s.kinds.done(d.kind)
}

// startSome starts what there is room for, in order.
func (s *shift) startSome(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.over && ctx.Err() == nil && len(s.hand) > 0 && len(s.running) < s.opts.Jobs {
		d := s.hand[0]
		mine := s.running[d.job.Key]
		if mine == nil && !plus(s.used, d.kind.need).Fits(s.opts.Room) {
			return
		}
		s.hand = s.hand[1:]
		if mine != nil { // it came again, since the servers' clock jumped: this is the message to acknowledge from now on
			delete(s.held, mine.d)
			s.kinds.done(d.kind)
			d.kind, mine.d = mine.d.kind, d
			continue
		}
		s.used = plus(s.used, d.kind.need)
		r := s.newRun(d)
		s.running[d.job.Key] = r
		s.group.Go(func() {
			s.do(r)
			s.mu.Lock()
			s.used = minus(s.used, r.d.kind.need)
			delete(s.running, d.job.Key)
			s.full = false
			s.ends++
			last, stays := r.d, s.attended[r.d]
			s.mu.Unlock()
			if !stays {
				s.drop(last)
			}
			close(r.done)
			s.poke()
		})
	}
}

// patience is how long a message may wait here for room.
const patience = time.Second

// share gives back what has waited for longer than that: all but the first, and that too where another worker waits for messages. No more are
// taken until something has ended.
func (s *shift) share() {
	s.mu.Lock()
	s.rate, s.ends = s.ends, 0
	none := len(s.hand) == 0 || time.Since(s.hand[0].arrived) < patience
	s.mu.Unlock()
	if none {
		return
	}
	others := s.q.Waiting(s.ctx) > int(s.open.Load())
	s.mu.Lock()
	var back []*delivery
	var head *delivery
	if len(s.hand) > 0 {
		head = s.hand[0]
	}
	s.hand = slices.DeleteFunc(s.hand, func(d *delivery) bool {
		if time.Since(d.arrived) < patience {
			return false
		}
		if d == head && !others {
			return false
		}
		back = append(back, d)
		return true
	})
	s.full = s.full || len(back) > 0 && len(s.running) > 0 // what runs may have ended since: nothing else would say so
	s.mu.Unlock()
	for _, d := range back {
		_ = d.Nak()
		s.drop(d)
	}
}

// poke has the puller look again.
func (s *shift) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// handBack gives back what was not started.
func (s *shift) handBack() {
	s.mu.Lock()
	hand := s.hand
	s.hand = nil
	s.mu.Unlock()
	for _, d := range hand {
		_ = d.Nak()
		s.drop(d)
	}
}
