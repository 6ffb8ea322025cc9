package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// verdict is how a figure stands to its aim.
type verdict string

const (
	met    verdict = "met"
	missed verdict = "**not met**"
	noAim  verdict = "–"
	absent verdict = "not judged"
)

// answer is what was found for an aim.
type answer struct {
	measured string
	verdict  verdict
}

// row is a peer's figures, as they are shown.
type row struct {
	name string
	spread
	ratio, cpu float64 // 0: there is none
}

func rows(all []series, base string) (list []row) {
	for i := range all {
		r := row{name: all[i].name, spread: all[i].values(), cpu: all[i].spread(func(r reading) float64 { return r.cpu }).median}
		if b := find(all, base); b != nil {
			r.ratio = ratio(&all[i], b)
		}
		list = append(list, r)
	}
	return list
}

// result is a measurement with what it found.
type result struct {
	*measurement
	rows    []row
	answers []answer // to its aims, in their order
}

// page is what docs/BENCHMARKS.md says.
type page struct {
	host string
	done []*result
}

func describeHost() string {
	var name unix.Utsname
	_ = unix.Uname(&name)
	said := fmt.Sprintf("%s as uid %d on %d CPUs (%s), Linux %s %s, %s", time.Now().UTC().Format("2006-01-02"), os.Geteuid(),
		runtime.NumCPU(), cpuModel(), unix.ByteSliceToString(name.Release[:]), runtime.GOARCH, runtime.Version())
	var load float64 // how many wanted a CPU in the last minute
	text, _ := os.ReadFile("/proc/loadavg")
	if _, err := fmt.Sscan(string(text), &load); err == nil && load > float64(runtime.NumCPU())/2 {
		said += fmt.Sprintf(". **The host was busy with other things (load %.1f): worth little, above all where several processes take part**", load)
	}
	return said
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

What confine costs, held against its aims. Measured %s.
Written by ` + "`make bench`" + `; don't edit.

| what | aim | measured | | figures |
|---|---|---|---|---|
`

const explained = `
Whatever is compared was measured in turns, A B C A B C; a figure is the median, a ratio (×) the median of the
ratios within each round. Ratios are worth more than this host's times. Everything starts by the same fork and exec, in an
empty directory and with a short PATH. CPU is user and system time of all processes that were waited for.

`

const figuresHead = `
## Figures

| | median | least … greatest | × base | CPU ms |
|---|---:|---:|---:|---:|
`

// absentPeers are those that belong on the page and aren't there.
const absentPeers = `
Not measured: go-judge (github.com/criyle/go-judge) under its own REST server. The Go module proxy refused its versions when this was written, so it could not be built
from its module here. An earlier measurement on this host had ` + "`/bin/true`" + ` out of its warm pool over REST at 4.5 × bare fork and exec, beside bwrap's 4.6 ×.
`

// text is the aims, how each figure was taken, and all figures.
func (p *page) text() string {
	var s strings.Builder
	fmt.Fprintf(&s, intro, p.host)
	for _, r := range p.done {
		for i, a := range r.aims {
			fmt.Fprintf(&s, "| %s | %s | %s | %s | %s |\n", a.what, a.goal, r.answers[i].measured, r.answers[i].verdict, r.name)
		}
	}
	s.WriteString(explained)
	for _, r := range p.done {
		fmt.Fprintf(&s, "- **%s**: %s\n", r.name, r.how)
	}
	s.WriteString(figuresHead)
	for _, r := range p.done {
		fmt.Fprintf(&s, "| **%s**, %s, base: %s | | | | |\n", r.name, r.unit, cmp.Or(r.base, "none"))
		for _, row := range r.rows {
			fmt.Fprintf(&s, "| %s | %.2f | %.2f … %.2f | %s | %s |\n", row.name, row.median, row.min, row.max, orNone(row.ratio), orNone(row.cpu))
		}
	}
	return s.String() + absentPeers
}

func orNone(x float64) string {
	if x == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", x)
}
