package slurm

import (
	"reflect"
	"testing"
)

func TestAllocations(t *testing.T) {
	task := func(more ...string) map[string]string {
		env := map[string]string{"SLURM_JOB_ID": "7", "SLURM_PROCID": "3", "SLURM_STEP_ID": "0", "SLURMD_NODENAME": "n1"}
		for i := 0; i < len(more); i += 2 {
			env[more[i]] = more[i+1]
		}
		return env
	}
	for name, c := range map[string]struct {
		env  map[string]string
		want *Allocation
	}{
		"no task":               {map[string]string{}, nil},
		"no number of a job":    {task("SLURM_JOB_ID", "7; rm"), nil},
		"no task of a job":      {task("SLURM_PROCID", ""), nil},
		"a node that is a path": {task("SLURMD_NODENAME", "../../x"), nil},
		"nothing is said":       {task(), &Allocation{"7", "0", "3", "n1", 1, 0}},
		"a batch script":        {task("SLURM_STEP_ID", "", "SLURM_MEM_PER_NODE", "200"), &Allocation{"7", "batch", "3", "n1", 1, 200 << 20}},
		"memory of a CPU":       {task("SLURM_MEM_PER_CPU", "100", "SLURM_CPUS_PER_TASK", "4"), &Allocation{"7", "0", "3", "n1", 4, 400 << 20}},
		"memory of a node":      {task("SLURM_MEM_PER_NODE", "600", "SLURM_STEP_TASKS_PER_NODE", "1,3(x2)"), &Allocation{"7", "0", "3", "n1", 1, 200 << 20}},
		"memory in words":       {task("SLURM_MEM_PER_CPU", "100M"), nil},
		"too much of it":        {task("SLURM_MEM_PER_CPU", "99999999999"), nil},
		"tasks in words":        {task("SLURM_MEM_PER_NODE", "600", "SLURM_STEP_TASKS_PER_NODE", "many"), nil},
		"no tasks":              {task("SLURM_MEM_PER_NODE", "600", "SLURM_STEP_TASKS_PER_NODE", "0"), nil},
	} {
		got, err := Of(func(name string) string { return c.env[name] })
		if !reflect.DeepEqual(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
