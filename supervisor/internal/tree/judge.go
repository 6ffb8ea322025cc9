package tree

import (
	"errors"
	"time"
)

// judge compares a sample with the limits that end a run, and with that of tasks.
func (w *Watchdog) judge(s *Sample) error {
	if w.Limits.CPU > 0 && !w.cpuHit && s.CPU >= w.Limits.CPU {
		w.cpuHit = true
		if w.OnCPU != nil {
			w.OnCPU(s.CPU)
		}
	}
	if w.Limits.Memory > 0 && !w.memHit && s.Bound > w.tolerated(s.At) {
		if err := w.measureStopped(); err != nil {
			return err
		}
	}
	if w.Limits.Tasks > 0 && (s.Stopped || s.Live() > w.Limits.Tasks || s.Zombies > w.Limits.Tasks) {
		return w.trim(s)
	}
	return nil
}

// tolerated is the bound from which on everybody is stopped. In the pause after that, half
// of the overshoot is left to the tree: memory can't be above its bound.
func (w *Watchdog) tolerated(now time.Time) int64 {
	if now.Before(w.pss.pause) {
		return w.Limits.Memory + Overshoot(w.Limits.Memory)/2
	}
	return w.Limits.Memory
}

// measureStopped measures again with everybody stopped. Processes that share memory
// and end while they are measured one after the other are counted twice, so is
// a memfd that was closed since the last walk, and nobody is killed for that. Once the
// limit is known to be passed, nobody goes on: whoever is told has to kill the run.
func (w *Watchdog) measureStopped() error {
	return w.whileStopped(func() error {
		s, err := w.tree.Sample(Need{PSSAbove: -1, Scratch: w.scratch(), Memfds: WholeWalk})
		if err != nil {
			return err
		}
		w.walked(WholeWalk, &s, w.now())
		w.keepPSS(&s, w.now())
		w.note(&s, w.now())
		if s.Memory() > w.Limits.Memory {
			w.memHit = true
			if w.OnMemory != nil {
				w.OnMemory(s.Memory(), w.tree.Biggest())
			}
			return nil
		}
		w.pss.pause = w.now().Add(s.pssCost) // half of the time is the tree's
		return nil
	})
}

// maxTrims bounds the rounds of one sample; the next sample comes soon after.
const maxTrims = 16

// trim kills the newest tasks until the count is within its limit. When they
// come back faster than they are killed, everybody is stopped meanwhile. Those
// whom the sample has stopped already must be woken in any case.
func (w *Watchdog) trim(s *Sample) (err error) {
	count := s.Live()
	hit := count > w.Limits.Tasks
	rounds := func(n int) (done bool, err error) {
		for range n {
			killed, err := w.tree.Trim(w.Limits.Tasks)
			for _, pid := range killed {
				if w.OnKill != nil {
					w.OnKill(pid)
				}
			}
			if err != nil || killed == nil {
				return true, err
			}
			hit = true
		}
		return false, nil
	}
	done := false
	if !s.Stopped {
		done, err = rounds(2)
	}
	if !done {
		err = w.whileStopped(func() error {
			_, err := rounds(maxTrims)
			return err
		})
	}
	if hit && !w.tasksHit {
		w.tasksHit = true
		if w.OnTasks != nil {
			w.OnTasks(count)
		}
	}
	return err
}

// whileStopped does something with everybody stopped, as far as that can be reached.
func (w *Watchdog) whileStopped(do func() error) error {
	err := w.tree.Stop()
	if err == nil || errors.Is(err, ErrUnsettled) {
		err = do()
	}
	if w.stopped.IsZero() && !w.memHit {
		err = errors.Join(err, w.tree.Continue())
	}
	return err
}

// throttle stops the tree when it has used up its rate, and wakes it when the
// budget of a period has accumulated again.
func (w *Watchdog) throttle(used time.Duration, now time.Time) error {
	if w.Limits.CPUPercent <= 0 {
		return nil
	}
	w.rate.spend(used, now)
	switch {
	case w.stopped.IsZero() && !w.rate.empty():
		return nil
	case w.stopped.IsZero():
		w.stopped = now
	case w.rate.full():
		return w.resume()
	default:
		w.throttled(now)
		w.stopped = now
	}
	// Again while it is stopped, because SIGCONT can come from elsewhere.
	if err := w.tree.Stop(); err != nil && !errors.Is(err, ErrUnsettled) {
		return err
	}
	return nil
}

// throttled adds the time since the tree was last known to be stopped.
func (w *Watchdog) throttled(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.usage.Throttled += now.Sub(w.stopped)
}
