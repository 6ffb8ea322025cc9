package watch

import (
	"testing"

	"github.com/confine-run/confine/supervisor/internal/tree"
)

// The watchdog runs beside the messages of the child: it may kill the target before
// its start has been told.
func TestTheTargetMayBeKilledBeforeItsStartIsTold(t *testing.T) {
	t.Parallel()
	const target, other = 2, 7
	for _, tt := range []struct {
		name          string
		before, after []int
		want          bool
	}{
		{"before", []int{other, target}, nil, true},
		{"after", nil, []int{target}, true},
		{"another before", []int{other}, nil, false},
		{"another after", nil, []int{other}, false},
		{"both", []int{target}, []int{other}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := &Watch{dog: &tree.Watchdog{}, noted: noted{targets: map[int]bool{}}}
			for _, pid := range tt.before {
				w.killed(pid)
			}
			number := w.Started(target, -1, false)
			for _, pid := range tt.after {
				w.killed(pid)
			}
			if got := w.TooMany(number); got != tt.want {
				t.Errorf("killed %v, started, killed %v: %v, want %v", tt.before, tt.after, got, tt.want)
			}
		})
	}
}

// Without a proc of the inside, a target that is gone has no number; others that the
// watchdog kills are not taken for it.
func TestATargetWithoutANumberWasNotKilled(t *testing.T) {
	t.Parallel()
	w := &Watch{dog: &tree.Watchdog{}, noted: noted{targets: map[int]bool{}}, proc: -1}
	w.killed(7)
	number := w.Started(2, -1, false)
	w.killed(2)
	if w.TooMany(number) {
		t.Error("somebody else was taken for the target")
	}
	if number = w.Started(2, -1, true); number != 2 {
		t.Errorf("in the caller's own namespace the number is %d, want 2", number)
	}
}
