// Package slurm reads what Slurm says of a task in its environment.
package slurm

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/config"
)

// Source is who says what comes from an allocation.
const Source = "Slurm"

// Passed are variables of a task that its command gets. SLURM_JWT, and whatever else there comes to be, is none of them.
var Passed = [...]string{
	"SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_JOB_PARTITION", "SLURM_SUBMIT_DIR", "SLURM_STEP_ID",
	"SLURM_NNODES", "SLURM_NODEID", "SLURMD_NODENAME", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE",
	"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_COUNT",
}

// Allocation is what Slurm says of a task. 0 is what it doesn't say.
type Allocation struct {
	Job, Step, Task, Node string
	CPUs                  int64
	Memory                int64 // bytes
}

// Of reads what a task's environment says. What isn't as Slurm writes it is refused: nothing runs with limits that somebody has guessed.
func Of(env func(string) string) (*Allocation, error) {
	a := &Allocation{Job: env("SLURM_JOB_ID"), Step: env("SLURM_STEP_ID"), Task: env("SLURM_PROCID"), Node: env("SLURMD_NODENAME")}
	a.Step = cmp.Or(a.Step, "batch")
	if !isNumber(a.Job) || !isNumber(a.Task) || a.Step != "batch" && !isNumber(a.Step) || strings.ContainsAny(a.Node, "/%") {
		return nil, &config.UsageError{Msg: "this is no task of Slurm's: SLURM_JOB_ID and SLURM_PROCID say of which job it is, and are not there",
			Hint: "srun confine slurm -- CMD, or a line of a batch script; elsewhere: confine -- CMD"}
	}
	numbers := map[string]int64{}
	for _, name := range [...]string{"SLURM_CPUS_PER_TASK", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_NODE"} {
		text := env(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > 1<<30 {
			return nil, notSlurm(name, text)
		}
		numbers[name] = n
	}
	tasks, err := tasksPerNode(env)
	if err != nil {
		return nil, err
	}
	a.CPUs = max(numbers["SLURM_CPUS_PER_TASK"], 1)
	switch {
	case numbers["SLURM_MEM_PER_CPU"] > 0:
		a.Memory = numbers["SLURM_MEM_PER_CPU"] * a.CPUs << 20
	case numbers["SLURM_MEM_PER_NODE"] > 0: // of all tasks there
		a.Memory = numbers["SLURM_MEM_PER_NODE"] << 20 / tasks
	}
	return a, nil
}

// tasksPerNode is how many tasks share a node, on the one that has most: "2", "2(x3),1".
func tasksPerNode(env func(string) string) (int64, error) {
	name := "SLURM_STEP_TASKS_PER_NODE"
	text := env(name)
	if text == "" {
		return 1, nil // of a batch script
	}
	most := int64(1)
	for part := range strings.SplitSeq(text, ",") {
		count, times, repeated := strings.Cut(part, "(x")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil || n < 1 || n > 1<<20 || repeated && !isNumber(strings.TrimSuffix(times, ")")) {
			return 0, notSlurm(name, text)
		}
		most = max(most, n)
	}
	return most, nil
}

func notSlurm(name, text string) error {
	return &config.UsageError{Msg: name + " is " + strconv.Quote(text) + ", which Slurm doesn't write", Hint: "unset it where it was set by somebody else"}
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 32)
	return err == nil
}
