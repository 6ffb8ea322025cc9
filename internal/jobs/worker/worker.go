package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/jobs"
)

// Options are what a worker is made with.
type Options struct {
	Backend func(*config.Policy) backend.Backend
	Sources config.Sources // the files of this host that count
	Environ []string       // of which policies may pass some
	Hidden  []string       // paths that no job sees
	Profile string         // of jobs that name none
	// Ceilings, the first whose pattern fits counts. A job that none fits is refused.
	Ceilings []Ceiling
	Room     jobs.Need     // zero: HostRoom
	Jobs     int           // at one time; 0: 64
	Lease    time.Duration // how long it may be silent before it ends what it runs; 0: 10 seconds
	Drain    time.Duration // how long jobs may go on when the worker is to end; 0: 30 seconds
	Dir      string        // for files without names, and snapshots of sessions
	At       func(string)  // nil but in tests, which may end the process at a step of a move
	Said     io.Writer     // what happens to the worker itself; nil: nobody
}

// Worker takes jobs and does them.
type Worker struct {
	opts     Options
	standing atomic.Int32 // sessions
	q        *jobs.Queue
	host     string
	kinds    kinds
	inputs   inputs
}

// New makes one.
func New(q *jobs.Queue, o Options) *Worker {
	o.Jobs, o.Lease, o.Drain = cmp.Or(o.Jobs, 64), cmp.Or(o.Lease, 10*time.Second), cmp.Or(o.Drain, 30*time.Second)
	if o.Room == (jobs.Need{}) {
		o.Room = HostRoom()
	}
	w := &Worker{opts: o, q: q}
	w.host, _ = os.Hostname()
	w.kinds = kinds{w: w, all: map[string]*kind{}}
	w.inputs = inputs{q: q, dir: o.Dir, all: map[string]*input{}}
	return w
}

func (w *Worker) say(format string, args ...any) {
	if w.opts.Said != nil {
		fmt.Fprintf(w.opts.Said, "confine worker: "+format+"\n", args...)
	}
}

// Run takes jobs until ctx ends; then it takes no more, waits for those that run, and gives back what has not ended in time. Where hurry, which ends
// after ctx, does, it doesn't wait. An error is one that a worker can't begin with.
func (w *Worker) Run(ctx, hurry context.Context) error {
	defer w.kinds.close()
	id, err := jobs.NewIdentity()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		info := jobs.WorkerInfo{Host: w.host, Lease: jobs.Seconds(w.opts.Lease.Seconds()), Room: w.opts.Room, Identity: id.Digest}
		lease, err := w.q.Enlist(ctx, info)
		if err == nil {
			err = w.shift(ctx, hurry, lease, id)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		w.say("%v", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

// Causes of the end of a job that is not its own.
var (
	errCancelled = errors.New("it was cancelled")
	errReleased  = errors.New("the worker ends")
	errLost      = errors.New("the worker has no connection")
	errUnable    = errors.New("the worker can't run it now")
)

// Sessions is how many there are.
func (w *Worker) Sessions() int { return int(w.standing.Load()) }

// shift is the time for which a lease lasts.
type shift struct {
	*Worker
	lease *jobs.Lease
	peers *jobs.Peers
	ctx   context.Context // of what is written about jobs: it lasts longer than they do

	mu      sync.Mutex
	used    jobs.Need
	hand    []*delivery // that are not started yet
	running map[jobs.Key]*run
	held    map[*delivery]bool // all that the servers are to leave with us
	// attended are those of it whose job another worker has, of which nothing is heard.
	attended map[*delivery]bool
	open     atomic.Int32    // requests for messages that wait
	group    sync.WaitGroup  // of running
	wake     chan struct{}   // of length 1: there may be room
	beating  context.Context // it ends when nothing runs any more
	ends     int             // since share looked
	rate     int             // of a second, then
	full     bool            // nothing is taken until something has ended
	over     bool            // nothing is started any more
}

// shift does jobs until ctx ends, or the lease does.
func (w *Worker) shift(ctx, hurry context.Context, lease *jobs.Lease, id *jobs.Identity) error {
	life, end := context.WithCancel(context.Background())
	defer end()
	s := &shift{Worker: w, lease: lease, peers: w.q.Peers(), ctx: life, running: map[jobs.Key]*run{}, held: map[*delivery]bool{}, attended: map[*delivery]bool{}, wake: make(chan struct{}, 1)}
	stop, err := lease.OnCancel(s.cancel)
	if err != nil {
		return err
	}
	defer stop()
	held, err := s.hold(id)
	if err != nil {
		w.say("there are no sessions here: %v", err)
	}
	endSessions := sync.OnceFunc(func() {
		if held != nil {
			held.end(endTime)
		}
	})
	defer endSessions()
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	var beats sync.WaitGroup
	beating, rest := context.WithCancel(life)
	beats.Go(func() { s.renew(beating) })
	beats.Go(func() { s.heartbeat(beating) })
	s.beating = beating
	beats.Go(func() {
		if s.expire(beating) {
			lost(errLost)
			s.endAll(errLost)
			endSessions()
		}
	})
	w.say("takes jobs as %s: %d MiB, %d %% of CPU, %d tasks", lease.Name, w.opts.Room.Memory>>20, w.opts.Room.CPU, w.opts.Room.Tasks)
	s.pull(ctx)
	s.handBack()
	if held != nil {
		held.refuse()
	}
	done := make(chan struct{})
	go func() {
		s.group.Wait()
		close(done)
	}()
	if context.Cause(ctx) == errLost {
		<-done
		endSessions()
		rest()
		beats.Wait()
		return jobs.ErrGone
	}
	select {
	case <-done:
	case <-hurry.Done():
	case <-time.After(w.opts.Drain):
	}
	s.endAll(errReleased)
	endSessions()
	<-done
	rest()
	beats.Wait()
	last, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return lease.Leave(last)
}

// endTime is how long the ends of sessions may take to be written down.
const endTime = 3 * time.Second

// renew keeps the lease.
func (s *shift) renew(ctx context.Context) {
	every(ctx, s.opts.Lease/4, func() {
		s.mu.Lock()
		used, n := s.used, len(s.running)
		s.mu.Unlock()
		once, cancel := context.WithTimeout(ctx, s.opts.Lease/2)
		defer cancel()
		_ = s.lease.Renew(once, used, n, s.Sessions()) // when it can't be, there is less left of it
	})
}

// expire waits until the lease has ended.
func (s *shift) expire(ctx context.Context) (ended bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	every(ctx, s.opts.Lease/40, func() {
		if s.lease.Left() <= 0 {
			ended = true
			cancel()
		}
	})
	return ended
}

// heartbeat has the servers leave with us what we have.
func (s *shift) heartbeat(ctx context.Context) {
	every(ctx, s.q.AckWait()/3, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for d := range s.held {
			_ = d.InProgress()
		}
	})
}

func every(ctx context.Context, d time.Duration, do func()) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			do()
		}
	}
}

// cancel ends a job, if it is one of this shift's and its record says that it is to be: everybody who may ask for the end of his own jobs can name others', but not write their records.
func (s *shift) cancel(key jobs.Key) <-chan struct{} {
	s.mu.Lock()
	r := s.running[key]
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	if k, err := s.q.Get(s.ctx, key); err != nil || k.Record == nil || !k.Cancel || k.Claim != r.claim {
		return nil // who asked looks again, and asks once more
	}
	r.end(errCancelled)
	return r.done
}

// endAll ends all jobs, and has none started any more.
func (s *shift) endAll(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, r := range s.running {
		r.end(cause)
	}
}
