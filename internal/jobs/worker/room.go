package worker

import (
	"cmp"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/jobs"
)

// needOf is what a job takes by its policy: the limits, which it may use up. Without a limit it is all that the worker has.
func needOf(p *config.Policy, room jobs.Need) jobs.Need {
	n := jobs.Need{Memory: p.MemoryLimit, CPU: int64(p.CPULimit), Tasks: p.Processes}
	if n.CPU == 0 {
		n.CPU = 100 * int64(max(p.CPUs, 1))
	}
	n.Memory = cmp.Or(n.Memory, room.Memory)
	n.Tasks = cmp.Or(n.Tasks, room.Tasks)
	return n
}

func fits(n, room jobs.Need) bool {
	return n.Memory <= room.Memory && n.CPU <= room.CPU && n.Tasks <= room.Tasks
}

func plus(a, b jobs.Need) jobs.Need {
	return jobs.Need{Memory: a.Memory + b.Memory, CPU: a.CPU + b.CPU, Tasks: a.Tasks + b.Tasks}
}

func minus(a, b jobs.Need) jobs.Need {
	return jobs.Need{Memory: a.Memory - b.Memory, CPU: a.CPU - b.CPU, Tasks: a.Tasks - b.Tasks}
}

// HostRoom is what this host has for jobs, unless it is said: four fifths of the memory, all CPUs, half of the tasks.
func HostRoom() jobs.Need {
	n := jobs.Need{Memory: 1 << 30, CPU: 100 * int64(runtime.NumCPU()), Tasks: 4096}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
				if kib, err := strconv.ParseInt(f[1], 10, 64); err == nil {
					n.Memory = kib << 10
				}
			}
		}
	}
	n.Memory = n.Memory / 5 * 4
	if most, ok := number("/sys/fs/cgroup/memory.max"); ok {
		n.Memory = min(n.Memory, most/5*4)
	}
	if most, ok := number("/proc/sys/kernel/pid_max"); ok {
		n.Tasks = most / 2
	}
	if most, ok := number("/sys/fs/cgroup/pids.max"); ok {
		n.Tasks = min(n.Tasks, most/2)
	}
	return n
}

// number is that of a file of the kernel's, where there is one.
func number(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
