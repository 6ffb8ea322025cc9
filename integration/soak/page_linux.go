package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// page is what one round has come to.
type page struct {
	batches []*batch
	strikes []*struck
	refused []string
}

// wrong is everything that fails the round.
func (p *page) wrong() (list []string) {
	for _, b := range p.batches {
		for _, w := range b.wrong {
			list = append(list, fmt.Sprintf("%s, %d at once: %s", b.setup, b.flight, w))
		}
		if len(b.mechanisms) > 1 {
			list = append(list, fmt.Sprintf("%s, %d at once: %d different ledgers", b.setup, b.flight, len(b.mechanisms)))
		}
	}
	for _, s := range p.strikes {
		for _, w := range s.wrong {
			list = append(list, s.setup+": "+w)
		}
	}
	if len(p.batches) == 0 {
		list = append(list, "nothing could be run")
	}
	return list
}

func (p *page) text() string {
	var out strings.Builder
	p.batchTable(&out)
	p.strikeTable(&out)
	for _, r := range p.refused {
		fmt.Fprintf(&out, "Not to be had here: %s\n", r)
	}
	for _, w := range p.wrong() {
		fmt.Fprintf(&out, "WRONG: %s\n", w)
	}
	return out.String()
}

func (p *page) batchTable(out *strings.Builder) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "options\tat once\truns\tkilled\twrong\tmedian\t99 %\truns/s")
	for _, b := range p.batches {
		slices.Sort(b.took)
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%.0f\n", b.setup, b.flight, b.runs, b.killed, len(b.wrong),
			at(b.took, 0.5), at(b.took, 0.99), float64(b.runs)/b.elapsed.Seconds())
	}
	_ = t.Flush()
	said := map[string]bool{}
	for _, b := range p.batches {
		for _, m := range slices.Sorted(maps.Keys(b.mechanisms)) {
			if line := fmt.Sprintf("%s: %s\n", b.setup, m); !said[line] {
				said[line] = true
				out.WriteString("\n" + line)
			}
		}
	}
}

func (p *page) strikeTable(out *strings.Builder) {
	if len(p.strikes) == 0 {
		return
	}
	out.WriteString("\n")
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "options\ttwo limits\truns\tstatus, rc, limits hit\tbecause")
	for _, s := range p.strikes {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", s.setup, s.strike.name, s.runs,
			strings.Join(slices.Sorted(maps.Keys(s.seen)), "; "), s.strike.why)
	}
	_ = t.Flush()
}

// at is the reading below which that part of them is.
func at(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)].Round(100 * time.Microsecond)
}

func leftText(before map[string]bool, left []string) string {
	kinds := map[string]int{}
	for line := range before {
		kind, _, _ := strings.Cut(line, " ")
		kinds[kind]++
	}
	text := fmt.Sprintf("Left: %d processes, mounts, files, cgroups and descriptors.\n", len(left))
	for _, line := range left {
		text += "LEFT: " + line + "\n"
	}
	return text + fmt.Sprintf("(There before: %v.)\n", kinds)
}
