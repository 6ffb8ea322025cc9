package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// entry is a measurement with what it found.
type entry struct {
	measurement
	result *result
}

// page is what docs/BENCHMARKS.md says.
type page struct {
	host []string
	done []entry
}

func describeHost() []string {
	var name unix.Utsname
	_ = unix.Uname(&name)
	user := "an ordinary user"
	if os.Geteuid() == 0 {
		user = "root"
	}
	return []string{
		fmt.Sprintf("%s, Linux %s %s", time.Now().UTC().Format("2006-01-02"), unix.ByteSliceToString(name.Release[:]), runtime.GOARCH),
		fmt.Sprintf("%d CPUs (%s)", runtime.NumCPU(), cpuModel()),
		fmt.Sprintf("%s, as %s", runtime.Version(), user),
	}
}

// loadNow is how many wanted a CPU in the last minute.
func loadNow() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}

// describeLoad says whether others were at work here. Our own part is about one
// or two, and can't be told apart.
func describeLoad(before, peak float64) string {
	line := fmt.Sprintf("load %.1f before the start, %.1f at most", before, peak)
	if cpus := float64(runtime.NumCPU()); before > cpus/2 || peak > cpus+3 {
		line += ". **The host was busy with other things: worth little, above all where several processes take part**"
	}
	return line
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "model not known"
}

const intro = `# Benchmarks

Written by ` + "`make bench`" + `; don't edit. Whatever is compared was measured in turns, A B C A B C.
A figure is the median, with the least and the greatest beside it; a ratio is the median of the
ratios within each round. Times are this host's; ratios are worth more. CPU is user and system time
of all processes that were waited for, in milliseconds; bwrap doesn't wait for its own. Everything starts by the same fork and
exec, with a short PATH and in an empty directory, unless it says otherwise.

`

func (p *page) text() string {
	var s strings.Builder
	s.WriteString(intro)
	for _, line := range p.host {
		s.WriteString("- " + line + "\n")
	}
	s.WriteString("\n" + p.summary())
	for i := range p.done {
		s.WriteString("\n" + section(&p.done[i].measurement, p.done[i].result))
	}
	return s.String()
}

func (p *page) summary() string {
	var s strings.Builder
	s.WriteString("| what | aim | measured | |\n|---|---|---|---|\n")
	for _, e := range p.done {
		fmt.Fprintf(&s, "| %s | %s | %s | %s |\n", e.what, e.aim, e.result.measured, e.result.verdict)
	}
	return s.String()
}

// section is one measurement in full.
func section(m *measurement, r *result) string {
	var s strings.Builder
	fmt.Fprintf(&s, "## %s: %s\n\n", m.name, m.what)
	base := find(r.all, r.base)
	if len(r.all) > 0 {
		fmt.Fprintf(&s, "| | median, %s | least … greatest | × %s | CPU ms |\n|---|---:|---:|---:|---:|\n", r.unit, r.base)
	}
	for i := range r.all {
		one := &r.all[i]
		v, times, cpu := one.values(), "–", "–"
		if base != nil {
			times = fmt.Sprintf("%.2f", ratio(one, base))
		}
		if c := one.cpu(); c.median > 0 {
			cpu = fmt.Sprintf("%.2f", c.median)
		}
		fmt.Fprintf(&s, "| %s | %.2f | %.2f … %.2f | %s | %s |\n", one.name, v.median, v.min, v.max, times, cpu)
	}
	if len(r.all) > 0 {
		s.WriteString("\n")
	}
	for _, n := range r.notes {
		s.WriteString(n + "\n")
	}
	if base == nil && r.base != "" && len(r.all) > 0 {
		s.WriteString("\n" + r.base + " is missing on this host.\n")
	}
	return s.String() + "\n"
}
