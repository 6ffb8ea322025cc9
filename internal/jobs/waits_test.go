package jobs

import "testing"

func TestWhatAJobWaitsFor(t *testing.T) {
	worker := func(memory, cpu, tasks int64) Named {
		return Named{Info: WorkerInfo{Room: Need{memory << 30, cpu, tasks}}}
	}
	set := func(all ...string) (settings []Setting) {
		for i := 0; i < len(all); i += 2 {
			settings = append(settings, Setting{Option: all[i], Values: []string{all[i+1]}})
		}
		return settings
	}
	two := []Named{worker(4, 200, 100), worker(2, 800, 100)}
	for _, c := range []struct {
		name   string
		policy []Setting
		all    []Named
		fit    int
		detail string
	}{
		{"nobody", nil, nil, 0, "it waits for a worker, and there is none at the moment"},
		{"the worker decides", nil, two, 2, "it waits for its turn; workers that have room for it when nothing else runs: 2"},
		{"one has it", set("memory-limit", "3G"), two, 1, "it waits for its turn; workers that have room for it when nothing else runs: 1"},
		{"too much memory", set("memory-limit", "5G"), two, 0, "it waits for a worker with 5.0G of memory (the largest has 4.0G), and there is none at the moment"},
		{"each has something", set("memory-limit", "3G", "cpu-limit", "400%"), two, 0, "it waits for a worker with room for all of what it may use at once, and there is none at the moment"},
		{"nothing of all", set("memory-limit", "5G", "processes", "1000"), two, 0,
			"it waits for a worker with 5.0G of memory (the largest has 4.0G) and 1000 processes (the largest has 100), and there is none at the moment"},
	} {
		j := &Job{Policy: c.policy}
		if w := WaitsOf(j, c.all); w.Fit != c.fit || w.Detail != c.detail || w.Workers != len(c.all) {
			t.Errorf("%s: %+v", c.name, w)
		}
	}
}
