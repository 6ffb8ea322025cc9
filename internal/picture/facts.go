package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/confine-run/confine/status"
)

// fact is one of the figures that are read first.
type fact struct {
	Name, Value, Of string
	Part            float64 // of its limit; 0: it has none
	Bad             bool    // something was refused, or a limit was reached
}

// peak is the highest of memory, and who says so: the kernel's own figure where there is one, since between two samples anything can be.
func (run *Run) peak() (bytes int64, source string) {
	for i := range run.Samples {
		if s := &run.Samples[i]; s.MemoryPeakBytes != nil && *s.MemoryPeakBytes >= bytes {
			bytes, source = *s.MemoryPeakBytes, "the kernel's own figure"
		} else if s.MemoryBytes != nil && *s.MemoryBytes > bytes {
			bytes, source = *s.MemoryBytes, "the highest sample"
		}
	}
	if run.Report != nil && run.Report.Usage.MemoryPeakBytes >= bytes {
		bytes, source = run.Report.Usage.MemoryPeakBytes, run.Report.Usage.Sources["memory_peak_bytes"]
	}
	return bytes, source
}

func (run *Run) mostTasks() (n int64) {
	for i := range run.Samples {
		if t := run.Samples[i].Tasks; t != nil {
			n = max(n, *t)
		}
	}
	if run.Report != nil {
		n = max(n, run.Report.Usage.TasksPeak)
	}
	return n
}

func (run *Run) cpu() (ms int64) {
	for i := range run.Samples {
		if c := run.Samples[i].CPUMS; c != nil {
			ms = max(ms, *c)
		}
	}
	if run.Report != nil {
		ms = max(ms, run.Report.Usage.CPUMS)
	}
	return ms
}

// facts are those of the head.
func (run *Run) facts() []fact {
	l := &run.Record.Limits
	peak, _ := run.peak()
	took := run.EndMS
	if run.Report != nil {
		took = run.Report.DurationMS
	}
	of := func(n, limit int64, say func(int64) string) (string, float64) {
		if limit <= 0 {
			return "no limit", 0
		}
		return "of " + say(limit), float64(n) / float64(limit)
	}
	bytes := func(n int64) string { return size(float64(n)) }
	all := []fact{{Name: "Time", Value: span(took)}, {Name: "CPU time", Value: span(run.cpu())}, {Name: "Memory, peak", Value: bytes(peak)},
		{Name: "Tasks, peak", Value: strconv.FormatInt(run.mostTasks(), 10)}}
	all[0].Of, all[0].Part = of(took, l.TimeMS, span)
	all[1].Of, all[1].Part = of(run.cpu(), l.CPUMS, span)
	all[2].Of, all[2].Part = of(peak, l.MemoryBytes, bytes)
	all[3].Of, all[3].Part = of(run.mostTasks(), l.Tasks, func(n int64) string { return strconv.FormatInt(n, 10) })
	reached, refused := 0, 0
	for _, h := range run.hosts() {
		if h.Verdict == status.AttemptBlocked {
			refused++
		} else {
			reached++
		}
	}
	all = append(all, fact{Name: "Network", Value: plural(int64(reached), "host reached", "hosts reached"), Of: strconv.Itoa(refused) + " refused"})
	switch {
	case reached+refused == 0:
		all[4].Value, all[4].Of = "not used", ""
	case refused > 0:
		all[4].Value, all[4].Of, all[4].Bad = plural(int64(refused), "host refused", "hosts refused"), strconv.Itoa(reached)+" reached", true
	}
	var n int64
	for _, v := range run.refusals() {
		n = min(n+v.Count, mostCount) // each is between 1 and that
	}
	all = append(all, fact{Name: "Calls and files", Bad: n > 0, Value: plural(n, "refusal", "refusals"), Of: plural(int64(len(run.refusals())), "kind", "kinds")})
	if n == 0 {
		all[5].Value, all[5].Of = "none refused", ""
	}
	for i := range all {
		all[i].Bad = all[i].Bad || all[i].Part >= 0.98
	}
	return all
}

// hosts are those that were reached and refused, in the order of the first time. Questions by DNS are left out, unless they were refused:
// whoever reaches a host has asked for it.
func (run *Run) hosts() (all []status.Attempt) {
	if run.Report != nil && run.Report.Network != nil {
		all = run.Report.Network.Attempts
	} else {
		for _, r := range run.Reached {
			r.Attempt.FirstMS = r.AtMS
			all = append(all, r.Attempt)
		}
		for _, d := range run.Denied {
			if d.Kind == "network" {
				all = append(all, status.Attempt{What: d.What, Verdict: status.AttemptBlocked, Count: d.Count, FirstMS: d.AtMS, Rule: d.Rule, Hint: d.Hint})
			}
		}
	}
	var shown []status.Attempt
	for _, a := range all {
		if a.Protocol == "dns" && a.Verdict == status.AttemptAllowed {
			continue
		}
		a.FirstMS = min(max(a.FirstMS, 0), run.EndMS)
		a.LastMS = min(max(a.LastMS, a.FirstMS), run.EndMS)
		a.Count = min(max(a.Count, 1), mostCount)
		shown = append(shown, a)
	}
	slices.SortStableFunc(shown, func(a, b status.Attempt) int { return cmp.Compare(a.FirstMS, b.FirstMS) })
	return shown
}

// refusals are the denials that are not about hosts.
func (run *Run) refusals() (all []status.Violation) {
	if run.Report != nil {
		all = slices.Clone(run.Report.Violations)
	} else {
		for _, d := range run.Denied {
			d.Violation.FirstMS = d.AtMS
			all = append(all, d.Violation)
		}
	}
	all = slices.DeleteFunc(all, func(v status.Violation) bool { return v.Kind == "network" })
	for i := range all {
		v := &all[i]
		v.FirstMS = min(max(v.FirstMS, 0), run.EndMS)
		v.LastMS = min(max(v.LastMS, v.FirstMS), run.EndMS)
		v.Count = min(max(v.Count, 1), mostCount)
	}
	return all
}

// verdict is the first thing that one reads: how it ended, why, and whether that is good.
func (run *Run) verdict() (word, why, class string) {
	switch {
	case run.Report == nil:
		return "NOT ENDED", "the record is only a part: " + run.Cut, "warn"
	case run.Report.Status == status.OK:
		return string(run.Report.Status), run.Report.Reason, "ok"
	}
	return cut(string(run.Report.Status), 24), run.Report.Reason, "bad"
}

// notes are what a careful reader wants to know of how all this is known.
func (run *Run) notes() (all []string) {
	if n := len(run.Samples); n > 0 {
		least, most := run.Samples[0].EveryMS, run.Samples[0].EveryMS
		for i := range run.Samples {
			least, most = min(least, run.Samples[i].EveryMS), max(most, run.Samples[i].EveryMS)
		}
		between := span(least)
		if most > least {
			between += " to " + span(most)
		}
		line := plural(int64(n), "sample", "samples") + ", " + between + " apart; peaks are lines of their own, and are not made of samples where the kernel counts them"
		if g := run.gaps(); g > 0 {
			line += "; " + plural(int64(g), "gap where there was none", "gaps where there were none")
		}
		all = append(all, line+".")
	} else if run.Started {
		all = append(all, "It ended before the first sample.")
	}
	seen := int64(len(run.Processes))
	line := plural(seen, "process was seen", "processes were seen")
	if r := run.Report; r != nil && r.Usage.TasksStarted > seen {
		line += fmt.Sprintf("; at least %d tasks (threads are tasks, too) were started in all: processes that lived for less than the time between two samples may be in no picture", r.Usage.TasksStarted)
	} else {
		line += "; others may have lived for less than the time between two samples"
	}
	if n := len(run.Unseen); n > 0 {
		line += fmt.Sprintf("; %d such ended with a failure", n)
	}
	all = append(all, line+". Ends are known to a sample, exit codes where they are not 0.")
	if run.Untold > 0 {
		all = append(all, fmt.Sprintf("The record is at its bound: %d processes at one time are not in it.", run.Untold))
	}
	if run.Lost > 0 {
		all = append(all, fmt.Sprintf("%d lines are not in the record, because of its bound or a slow reader.", run.Lost))
	}
	if run.Cut != "" {
		all = append(all, "The record is only a part: "+run.Cut+".")
	}
	return all
}
