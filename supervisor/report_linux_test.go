package supervisor

import (
	"os"
	"slices"
	"testing"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/tree"
	"github.com/confine-run/confine/supervisor/internal/watch"
)

// RLIMIT_NPROC counts the threads of the init, too: one that it makes after the fork
// is one less for the target, which has then reached its limit all the same.
func TestThreadsOfTheInitCountForTheLimitOfTasks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		seen      int64
		initTasks uint32
		want      int64
		hit       bool
	}{
		{14, 0, 14, false},
		{14, 1, 14, false},
		{15, 1, 16, true},
		{16, 0, 16, true},
		{17, 0, 16, true},
	} {
		r := &job{box: &box{plan: &plan.Plan{Watch: plan.Watch{Tasks: 16}}}, exited: handoff.Exited{InitTasks: tt.initTasks}}
		var err error
		r.watch, err = watch.New(r.plan, watch.Inside{Init: os.Getpid(), Proc: -1})
		must.Do(t, err)
		u := status.Usage{Sources: map[string]string{}}
		r.peaks(&u, &tree.Usage{TasksPeak: tt.seen})
		if u.TasksPeak != tt.want {
			t.Errorf("seen %d and %d: peak %d, want %d", tt.seen, tt.initTasks, u.TasksPeak, tt.want)
		}
		if hit := slices.Contains(r.watch.Limits(r.tasksCounted(tt.seen)), status.Tasks); hit != tt.hit {
			t.Errorf("seen %d and %d: hit %v", tt.seen, tt.initTasks, hit)
		}
	}
}
