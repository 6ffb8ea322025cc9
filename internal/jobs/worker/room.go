package worker

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/jobs"
)

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
