package cli

import (
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/config"
)

// slurmSource is who says what comes from an allocation.
const slurmSource = "Slurm"

// slurmPassed are variables of a task that its command gets. SLURM_JWT, and whatever else there comes to be, is none of them.
var slurmPassed = [...]string{
	"SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_JOB_PARTITION", "SLURM_SUBMIT_DIR", "SLURM_STEP_ID",
	"SLURM_NNODES", "SLURM_NODEID", "SLURMD_NODENAME", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE",
	"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_COUNT",
}

// allocation is what Slurm says of a task. 0 is what it doesn't say.
type allocation struct {
	job, step, task, node string
	cpus                  int64
	memory                int64 // bytes
}

// slurmCommand is "confine slurm [options] [--] COMMAND [ARG…]".
func slurmCommand(s *session, line *Line) (int, error) {
	if len(line.Rest) == 0 {
		return rcUsage, &config.UsageError{Msg: "no command", Hint: "usage: srun confine slurm [options] " + commandArgs}
	}
	a, err := allocationOf(s.env)
	if err != nil {
		return rcUsage, err
	}
	named := strings.NewReplacer("%%", "%", "%j", a.job, "%s", a.step, "%t", a.task, "%n", a.node)
	for i, set := range line.Settings {
		if set.Option == "report" || set.Option == "events" {
			line.Settings[i].Values = []string{named.Replace(set.Values[0])}
		}
	}
	r, err := s.resolve(line.Settings)
	if err != nil {
		return rcUsage, err
	}
	r.Lift(slurmSource, "time-limit", "cpu-time") // it has limits of its own, and ends what passes them
	if a.memory > 0 {
		err = r.Allot(slurmSource, "memory-limit", a.memory)
	}
	if err == nil && a.cpus > 0 {
		err = r.Allot(slurmSource, "cpus", a.cpus)
	}
	if err != nil {
		return rcUsage, err
	}
	r.Policy.Env.Pass = append(r.Policy.Env.Pass, slurmPassed[:]...)
	s.explicit = line.Ended
	return s.start(r, line.Rest)
}

// allocationOf reads what a task's environment says. What isn't as Slurm writes it is refused: nothing runs with limits that somebody has guessed.
func allocationOf(env func(string) string) (*allocation, error) {
	a := &allocation{job: env("SLURM_JOB_ID"), step: env("SLURM_STEP_ID"), task: env("SLURM_PROCID"), node: env("SLURMD_NODENAME")}
	if a.step == "" {
		a.step = "batch"
	}
	if !isNumber(a.job) || !isNumber(a.task) || a.step != "batch" && !isNumber(a.step) || strings.ContainsAny(a.node, "/%") {
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
	a.cpus = max(numbers["SLURM_CPUS_PER_TASK"], 1)
	switch {
	case numbers["SLURM_MEM_PER_CPU"] > 0:
		a.memory = numbers["SLURM_MEM_PER_CPU"] * a.cpus << 20
	case numbers["SLURM_MEM_PER_NODE"] > 0: // of all tasks there
		a.memory = numbers["SLURM_MEM_PER_NODE"] << 20 / tasks
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
