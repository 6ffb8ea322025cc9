package tree

import "time"

// A walk over all descriptors of the tree finds what memfds hold. It can take
// longer than everything else, so that it has a budget of its own.
const (
	walkEvery = 100 * time.Millisecond
	// walkShare is the part of a core that walks may take: a walk is followed by so
	// many times its own cost without one.
	walkShare = 20
	// walkWorth is by how much the host's shared memory must have changed for a
	// walk that matters to the figures only.
	walkWorth = 1 << 20
)

// walks is what is known of walks for memfds.
type walks struct {
	after, soonest  time.Time // no other before: without a reason, and with one
	shared, scratch int64     // of the host and of the run, at the last one; before any, when the Watchdog was made
	growth          int64     // by how much memfds may have grown since
	within          bool      // the last one has not come to its end
}

func (w *Watchdog) scratch() int64 {
	if w.Scratch == nil {
		return 0
	}
	return max(w.Scratch(), 0)
}

// near is the memory from which the limit is so close that it must be known well.
func (w *Watchdog) near() int64 { return w.Limits.Memory - w.Limits.Memory/8 }

// walkNow says whether the next sample should look for memfds. Most trees have
// none, and most hosts so little shared memory that it could not bring the tree to
// its limit: then nobody looks as long as there isn't more of it.
func (w *Watchdog) walkNow(scratch int64, now time.Time) Walk {
	if w.Limits.Memory <= 0 || now.Before(w.walks.soonest) {
		return NoWalk
	}
	shared := int64(-1)
	if w.shared != nil {
		shared = w.shared()
	}
	known := shared >= 0 && w.walks.shared >= 0
	if w.walks.growth = 0; known {
		w.walks.growth = max(shared-w.walks.shared-max(scratch-w.walks.scratch, 0), 0)
	}
	if filling := w.walks.growth >= max(walkWorth, (w.Limits.Memory-w.last.Bound)/4); !filling && now.Before(w.walks.after) {
		return NoWalk
	}
	moved := max(shared-w.walks.shared, w.walks.shared-shared) >= walkWorth
	if known && !moved && !w.walks.within && w.last.Memfds == 0 && w.last.RSS+scratch+shared <= w.near() {
		return NoWalk
	}
	w.walks.shared, w.walks.scratch, w.walks.growth = shared, scratch, 0
	return PartWalk
}

// walked sets the time before the next walk.
func (w *Watchdog) walked(how Walk, s *Sample, now time.Time) {
	if how == NoWalk {
		return
	}
	pause := walkShare * s.walkCost
	if w.walks.within = !s.Walked; s.Walked {
		pause = max(pause, walkEvery)
	}
	w.walks.after, w.walks.soonest = now.Add(pause), now.Add(2*s.walkCost)
}
