package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// logPlan is the plan's summary in --log verbose.
func (s *session) logPlan(e *Explanation, p *config.Policy) {
	s.log.info("starting with profile: " + cmp.Or(e.Profile, p.Profile))
	for _, l := range limits {
		if v := l.value(p); v != "" {
			s.log.info("limit on " + l.what + ": " + v + mechanismNote(e, l.capability))
		}
	}
	s.log.info("network: " + network(&p.Network) + mechanismNote(e, status.Network))
	s.log.info("file system: " + filesystem(&p.Filesystem) + mechanismNote(e, status.Filesystem))
	s.log.info("system calls: " + p.Seccomp + mechanismNote(e, status.Syscalls))
	s.log.info("running: " + commandLine(e.Command.Argv))
}

// mechanismNote names the mechanism, and why there is only a weaker one.
func mechanismNote(e *Explanation, c status.Capability) string {
	line, ok := e.Enforced[c]
	switch {
	case !ok || !line.Enabled:
		return ""
	case !line.Effective:
		return " [not enforced: " + string(line.FallbackReason) + "]"
	case line.FallbackReason != "":
		return " [" + line.Mechanism + ": " + string(line.FallbackReason) + "]"
	}
	return " [" + line.Mechanism + "]"
}

func network(n *config.Network) string {
	switch {
	case n.All:
		return "the caller's"
	case len(n.Allow) == 0:
		return "denied"
	}
	return strings.Join(n.Allow, ", ")
}

func filesystem(f *config.Filesystem) string {
	workdir := map[string]string{"ro": "read-only", "rw": "writable", "overlay": "overlay", "none": "hidden"}[f.Workdir]
	if f.Virtual {
		return "mounts only"
	}
	text := "current directory " + workdir
	if n := len(f.AllowWrite); n > 0 {
		text += ", " + strconv.Itoa(n) + " writable"
	}
	return text
}

// commandLine shows words so that one can tell them apart.
func commandLine(argv []string) string {
	shown := make([]string, len(argv))
	for i, w := range argv {
		shown[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n\"'\\$`|&;<>()*?[]#~") {
			shown[i] = strconv.Quote(w)
		}
	}
	return strings.Join(shown, " ")
}

// logUsage is what the run used, in --log verbose.
func (s *session) logUsage(r *status.Report, p *config.Policy) {
	if s.log.level != "verbose" {
		return
	}
	u := &r.Usage
	wall := time.Duration(r.DurationMS) * time.Millisecond
	cpu := time.Duration(u.CPUMS) * time.Millisecond
	s.log.info(fmt.Sprintf("wall-clock time: %.3fs%s", wall.Seconds(), share(wall.Seconds(), p.TimeLimit.Seconds())))
	s.log.info(fmt.Sprintf("CPU time: %.3fs%s", cpu.Seconds(), share(cpu.Seconds(), p.CPUTime.Seconds())))
	s.log.info("memory: " + roughSize(u.MemoryPeakBytes) + share(float64(u.MemoryPeakBytes), float64(p.MemoryLimit)))
	s.log.info(fmt.Sprintf("tasks: %d%s", u.TasksPeak, share(float64(u.TasksPeak), float64(p.Processes))))
	s.log.info("output: " + roughSize(r.Bytes.Stdout) + " stdout, " + roughSize(r.Bytes.Stderr) + " stderr")
	s.log.info(fmt.Sprintf("exit: %d (%s)", r.RC, r.Status))
}

// roughSize words a size that was measured: "15.2M".
func roughSize(n int64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + "B"
	}
	f, i := float64(n)/(1<<10), 0
	for ; f >= 1<<10 && i < len(units)-1; i++ {
		f /= 1 << 10
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + units[i:i+1]
}

// share words part of a limit: " (15%)", or nothing when there is no limit.
func share(part, limit float64) string {
	if limit <= 0 {
		return ""
	}
	return " (" + strconv.FormatFloat(100*part/limit, 'f', 1, 64) + "%)"
}
