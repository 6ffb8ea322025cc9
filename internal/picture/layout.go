package picture

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/confine-run/confine/status"
)

// Where things stand, in the units of the picture: names at the left, time in the middle, figures at the right.
const (
	width      = 1120.0
	left       = 246.0
	right      = 924.0
	columns    = 339 // of 2 units
	bandHeight = 62.0
	rowHeight  = 17.0
	lineHeight = 16.0
	mostRows   = 40
	mostHosts  = 16
	mostKinds  = 12
	mostBars   = 48 // of a row whose processes are bars of their own
	mostLanes  = 2
)

// drawing is where everything stands.
type drawing struct {
	Width, Height    float64
	Left, Right      float64
	Title            string
	Word, Why, Class string
	WordWidth        float64
	Command          []string
	Facts            []place[fact]
	Start            start
	Top, Bottom      float64 // of what has a time
	Ticks            []place[string]
	Gaps             []box
	Bands            []band
	Sections         []section
	Marks            []mark
	Notes            []place[string]
}

// place is something at a place.
type place[T any] struct {
	X, Y, W float64
	Is      T
}

// start is what came before the command.
type start struct {
	Y           float64
	Total, Says string
	Parts       []place[string]
}

type box struct{ X, Y, W, H float64 }

// band is a figure over time.
type band struct {
	Y, H        float64
	Name, Class string
	Area, Part  string // paths
	Lines       []line // of its limit and its peak
	Says        []place[string]
	Legend      place[string] // of the part
}

type line struct {
	Y           float64
	Class, Says string
	TextY       float64
}

// section has a heading and lines.
type section struct {
	Y    float64
	Name string
	Rows []drawnRow
}

type drawnRow struct {
	Y          float64
	X          float64
	Name, Full string
	Says       string
	Class      string
	Bars       []bar
	Area       string
	Hint       place[string]
}

type bar struct {
	X, Y, W, H, Sure float64
	Failed           float64 // where the mark of a failure is; 0: none
	Class, Full      string
}

type mark struct {
	X, Y, TextX float64
	Anchor      string
	Says        string
}

// draw computes it.
func (run *Run) draw() *drawing {
	d := &drawing{Width: width, Left: left, Right: right}
	d.head(run)
	d.Top = d.Height
	d.bands(run)
	d.network(run)
	d.refused(run)
	d.processes(run)
	d.Bottom = d.Height
	d.time(run)
	d.Height += 34
	for _, note := range run.notes() {
		for _, l := range wrap(note, 178) {
			d.Notes = append(d.Notes, place[string]{X: 16, Y: d.Height, Is: l})
			d.Height += 15
		}
	}
	d.Height += 8
	return d
}

func (run *Run) x(ms int64) float64 {
	return left + (right-left)*float64(min(max(ms, 0), run.EndMS))/float64(run.EndMS)
}

func (d *drawing) head(run *Run) {
	word, why, class := run.verdict()
	d.Word, d.Class = word, class
	d.WordWidth = float64(len(word))*11.7 + 22
	d.Why = cut(firstLine(why), int((width-d.WordWidth-50)/8.2))
	command := cut(strings.Join(run.Record.Cmd, " "), 296)
	d.Command = wrapHard("$ "+command, 149)
	d.Title = word + ": " + cut(strings.Join(run.Record.Cmd, " "), 60)
	d.Height = 62 + float64(len(d.Command))*17
	for i, f := range run.facts() {
		d.Facts = append(d.Facts, place[fact]{X: 16 + float64(i)*182.4, Y: d.Height, W: 172, Is: f})
	}
	d.Height += 76
	var all int64
	for _, p := range run.Phases {
		all += p.US
	}
	if all > 0 {
		d.Start.Y, d.Start.Total = d.Height, "Before it ran: "+micro(all)
		var parts []string
		x := 250.0
		for _, p := range run.Phases {
			says := phaseText(p.Name) + " " + micro(p.US)
			d.Start.Parts = append(d.Start.Parts, place[string]{X: x, Y: d.Height, W: max(400*float64(p.US)/float64(all), 2), Is: says})
			x += 400 * float64(p.US) / float64(all)
			parts = append(parts, says)
		}
		d.Start.Says = strings.Join(parts, " · ")
		d.Height += 30
	}
	d.Height += 6
}

func phaseText(p status.PhaseName) string {
	switch p {
	case status.PhasePlan:
		return "planning"
	case status.PhaseBuild:
		return "building the sandbox"
	case status.PhaseStart:
		return "starting the command"
	}
	return cut(string(p), 20)
}

// bands are the figures over time, those that there is something of.
func (d *drawing) bands(run *Run) {
	if len(run.Samples) == 0 {
		return
	}
	l := &run.Record.Limits
	cpu := run.rate(columns, func(s *Sample) *int64 { return s.CPUMS }, func(s *Sample) *int64 { return s.SystemMS })
	for _, s := range [][]float64{cpu.top, cpu.part} {
		for i := range s {
			s[i] = min(s[i]/1000, float64(run.Record.CPUs))
		}
	}
	quota, quotaSays := float64(l.CPUPercent)/100, ""
	if quota > 0 {
		quotaSays = fmt.Sprintf("limit %s of a core", strconv.Itoa(l.CPUPercent)+" %")
	}
	d.band(&figure{name: "CPU, cores in use", class: "cpu", series: cpu, limit: quota, limitSays: quotaSays, least: 1, most: float64(run.Record.CPUs), say: trim,
		first: "highest " + trim(cpu.highest()) + " of " + plural(int64(run.Record.CPUs), "core", "cores"), legend: "in the kernel"})
	peak, source := run.peak()
	d.band(&figure{name: "Memory", class: "memory", series: run.level(columns, func(s *Sample) *int64 { return s.MemoryBytes }), limit: float64(l.MemoryBytes), peak: float64(peak),
		say: size, says: []string{cut(source, 30)}})
	d.band(&figure{name: "Tasks", class: "tasks", series: run.level(columns, func(s *Sample) *int64 { return s.Tasks }), limit: float64(l.Tasks), peak: float64(run.mostTasks()),
		say: func(v float64) string { return strconv.FormatInt(int64(v+.5), 10) }, least: 2})
	if disk := run.level(columns, func(s *Sample) *int64 { return s.DiskBytes }); disk.highest() > 0 {
		d.band(&figure{name: "Files in private places", class: "disk", series: disk, limit: float64(l.DiskBytes), say: size, first: "highest " + size(disk.highest())})
	}
	written := func(s *Sample) *int64 {
		if s.StdoutBytes == nil || s.StderrBytes == nil {
			return nil
		}
		n := *s.StdoutBytes + *s.StderrBytes
		return &n
	}
	if out := run.rate(columns, written, func(s *Sample) *int64 { return s.StderrBytes }); out.highest() > 0 {
		var n int64
		for i := range run.Samples {
			if w := written(&run.Samples[i]); w != nil {
				n = max(n, *w)
			}
		}
		d.band(&figure{name: "Output, per second", class: "output", series: out, say: size, says: []string{size(float64(n)) + " in all", "highest " + size(out.highest()) + "/s"}, legend: "standard error"})
	}
}

// figure is what a band is made of.
type figure struct {
	name, class string
	*series
	limit, peak float64 // 0: none
	limitSays   string
	first       string
	least, most float64 // what the scale has at least, and what can't be more; 0: that isn't known
	say         func(float64) string
	says        []string
	legend      string // of the part
}

func (d *drawing) band(f *figure) {
	if !f.any() && f.peak == 0 {
		return
	}
	d.Height += 20
	b := band{Y: d.Height, H: bandHeight, Name: f.name, Class: f.class}
	high := max(f.highest(), f.peak)
	scale := max(high*1.15, f.least*1.1)
	if f.most > 0 {
		scale = min(scale, f.most*1.1)
	}
	shown := f.limit > 0 && f.limit <= 4*max(high, f.least)
	if shown {
		scale = max(scale, f.limit*1.12)
	}
	if scale <= 0 {
		scale = 1
	}
	y := func(v float64) float64 { return b.Y + b.H - b.H*min(v/scale, 1) }
	b.Area = area(f.top, f.known, y, b.Y+b.H)
	if f.part != nil {
		b.Part = area(f.part, f.known, y, b.Y+b.H)
	}
	var says []string
	if f.first != "" {
		says = append(says, f.first)
	}
	if f.peak > 0 {
		says = append(says, "peak "+f.say(f.peak))
		b.Lines = append(b.Lines, line{Y: y(f.peak), Class: "peak"})
	}
	if f.limit > 0 {
		text := f.limitSays
		if text == "" {
			text = "limit " + f.say(f.limit)
		}
		if shown {
			b.Lines = append(b.Lines, line{Y: y(f.limit), Class: "limit", Says: text, TextY: y(f.limit) + 11})
		} else {
			text += ", beyond the scale"
		}
		says = append(says, text)
	}
	for i, s := range append(says, f.says...) {
		b.Says = append(b.Says, place[string]{X: right + 10, Y: b.Y + 12 + float64(i)*15, Is: s})
	}
	if f.legend != "" {
		n := float64(len(says) + len(f.says))
		b.Legend = place[string]{X: right + 22, Y: b.Y + 12 + n*15, Is: f.legend}
	}
	d.Bands = append(d.Bands, b)
	d.Height += bandHeight
}

// area is the path of a figure: steps, with nothing where nothing is known.
func area(v []float64, known []bool, y func(float64) float64, base float64) string {
	var p strings.Builder
	const w = (right - left) / columns
	for i := 0; i < len(v); {
		if !known[i] {
			i++
			continue
		}
		fmt.Fprintf(&p, "M%.1f %.1f", left+float64(i)*w, base)
		for ; i < len(v) && known[i]; i++ {
			fmt.Fprintf(&p, "V%.1fH%.1f", y(v[i]), left+float64(i+1)*w)
		}
		fmt.Fprintf(&p, "V%.1fZ", base)
	}
	return p.String()
}

// heading begins a section.
func (d *drawing) heading(name string) *section {
	d.Height += 26
	d.Sections = append(d.Sections, section{Y: d.Height, Name: name})
	d.Height += 6
	return &d.Sections[len(d.Sections)-1]
}

// attempt is a row of something that was tried at a time.
func (d *drawing) attempt(s *section, run *Run, class, name, says, hint string, first, last int64) {
	x, end := run.x(first), run.x(last)
	r := drawnRow{Y: d.Height, X: 16, Name: cut(name, 31), Full: cut(name, 300), Says: says, Class: class}
	r.Bars = []bar{{X: x - 1.5, Y: d.Height + 3, W: max(end-x, 0) + 3, H: rowHeight - 7, Sure: max(end-x, 0) + 3, Class: class, Full: cut(name, 300) + ", " + says}}
	if strings.HasPrefix(hint, "--") {
		hint = "to allow it: " + hint
	}
	if hint != "" {
		d.Height += lineHeight
		r.Hint = place[string]{X: left + 4, Y: d.Height + 11, Is: cut(hint, 105)}
	}
	s.Rows = append(s.Rows, r)
	d.Height += rowHeight
}

// listed has a row for each of n, and for those beyond most one that counts them.
func (d *drawing) listed(title string, n, most int, one, many string, draw func(s *section, i int)) {
	if n == 0 {
		return
	}
	s := d.heading(title)
	for i := range n {
		if i == most && n > most+1 {
			s.Rows = append(s.Rows, drawnRow{Y: d.Height, X: 16, Name: "and " + plural(int64(n-i), "further "+one, "further "+many), Class: "more"})
			d.Height += rowHeight
			return
		}
		draw(s, i)
	}
}

func (d *drawing) network(run *Run) {
	hosts := run.hosts()
	d.listed("Network", len(hosts), mostHosts, "host", "hosts", func(s *section, i int) {
		a := &hosts[i]
		class, says, hint := verdictClass(a)
		d.attempt(s, run, class, a.What, says, hint, a.FirstMS, a.LastMS)
	})
}

func verdictClass(a *status.Attempt) (class, says, hint string) {
	switch a.Verdict {
	case status.AttemptBlocked:
		return "bad", strings.TrimSpace("refused " + times(a.Count)), a.Hint
	case status.AttemptFailed:
		return "warn", strings.TrimSpace("failed " + times(a.Count)), ""
	}
	says = strings.TrimSpace("reached " + times(a.Count))
	if n := a.SentBytes + a.ReceivedBytes; n > 0 {
		says += ", " + size(float64(n))
	}
	return "ok", says, ""
}

func (d *drawing) refused(run *Run) {
	all := run.refusals()
	d.listed("Refused calls and files", len(all), mostKinds, "kind", "kinds", func(s *section, i int) {
		v := &all[i]
		d.attempt(s, run, "bad", v.What, strings.TrimSpace("refused "+times(v.Count)), v.Hint, v.FirstMS, v.LastMS)
	})
}

func (d *drawing) processes(run *Run) {
	if len(run.Processes) == 0 && len(run.Unseen) == 0 {
		return
	}
	s := d.heading("Processes")
	for _, r := range most(run.rows(), mostRows) {
		d.process(s, run, r)
	}
	if n := len(run.Unseen); n > 0 {
		r := drawnRow{Y: d.Height, X: 16, Name: "too short to be seen", Class: "more", Says: plural(int64(n), "failed", "failed")}
		for i, f := range run.Unseen {
			if i == 500 {
				break
			}
			r.Bars = append(r.Bars, bar{X: run.x(f.AtMS) - 1, Y: d.Height + 3, W: 2, H: rowHeight - 6, Sure: 2, Class: "bad", Full: cut(f.Comm, 40) + ", exit " + strconv.Itoa(f.Code)})
		}
		s.Rows = append(s.Rows, r)
		d.Height += rowHeight
	}
}

// process draws a row of processes: bars, where these are few, and else how many there were at once.
func (d *drawing) process(s *section, run *Run, r *row) {
	x := 16 + 10*float64(min(r.depth, 7))
	room := int((left - x - 8) / 7.3)
	out := drawnRow{Y: d.Height, X: x, Name: cut(r.label(), room), Class: "process", Says: span(min(r.busy, mostTime))}
	if n := len(r.all); n > 1 || r.further {
		count := times(int64(n))
		out.Name = cut(r.label(), room-len(count)-1) + " " + count
	}
	out.Full = cut(r.all[0].command(), 300)
	steps, peak := r.together()
	switch {
	case peak > 1:
		out.Says = strconv.Itoa(peak) + " seen at once"
	case len(r.all) > 1:
		out.Says = span(r.busy) + " in all"
	}
	if len(r.all) == 1 && r.all[0].Failed != nil {
		out.Says += ", exit " + strconv.Itoa(*r.all[0].Failed)
	} else if r.failed > 0 {
		out.Says += ", " + strconv.Itoa(r.failed) + " failed"
	}
	if lanes, ok := packed(r, run); ok {
		h := (rowHeight - 4) / float64(len(lanes))
		for i, lane := range lanes {
			for _, p := range lane {
				out.Bars = append(out.Bars, run.bar(p, d.Height+2+float64(i)*h, h-1))
			}
		}
	} else {
		out.Area = run.crowd(steps, peak, d.Height)
		out.Bars = run.failures(r, d.Height)
	}
	s.Rows = append(s.Rows, out)
	d.Height += rowHeight
}

// failures are marks where processes of a row failed, as many as can be told apart.
func (run *Run) failures(r *row, top float64) (marks []bar) {
	const most = 300
	for _, p := range r.all {
		if p.Failed != nil && len(marks) < most {
			marks = append(marks, bar{X: run.x(p.GoneMS) - 2, Y: top + 2, W: 2, H: rowHeight - 4, Sure: 2, Class: "bad", Full: cut(p.command(), 200) + ", exit " + strconv.Itoa(*p.Failed)})
		}
	}
	return marks
}

// packed puts few processes into lanes where none covers another.
func packed(r *row, run *Run) (lanes [][]*Process, ok bool) {
	if len(r.all) > mostBars {
		return nil, false
	}
	for _, p := range r.all {
		at := -1
		for i, lane := range lanes {
			if run.x(lane[len(lane)-1].GoneMS)+1 <= run.x(p.StartedMS) || lane[len(lane)-1].GoneMS <= p.StartedMS {
				at = i
				break
			}
		}
		if at < 0 {
			if len(lanes) == mostLanes {
				return nil, false
			}
			lanes, at = append(lanes, nil), len(lanes)
		}
		lanes[at] = append(lanes[at], p)
	}
	return lanes, true
}

func (run *Run) bar(p *Process, y, h float64) bar {
	x := run.x(p.StartedMS)
	b := bar{X: x, Y: y, H: h, W: max(run.x(p.GoneMS)-x, 1.5), Class: "process"}
	b.Sure = min(max(run.x(p.LastMS)-x, 1.5), b.W)
	b.Full = fmt.Sprintf("%s\npid %d, parent %d, from %s to %s", cut(p.command(), 300), p.PID, p.Parent, span(p.StartedMS), span(p.GoneMS))
	if p.Failed != nil {
		b.Failed = b.X + max(b.W-3, 0)
		b.Full += ", exit " + strconv.Itoa(*p.Failed)
	}
	if !p.Gone {
		b.Full += ", there until the end"
	}
	return b
}

// crowd is how many of a row there were at once, as an area of a row's height.
func (run *Run) crowd(steps []step, peak int, top float64) string {
	v, known := make([]float64, columns), make([]bool, columns)
	const w = (right - left) / columns
	for i, s := range steps {
		if s.n == 0 {
			continue
		}
		end := right
		if i+1 < len(steps) {
			end = run.x(steps[i+1].at)
		}
		for c := int((run.x(s.at) - left) / w); c < columns && (left+float64(c)*w < end || left+float64(c)*w <= run.x(s.at)); c++ {
			v[c], known[c] = max(v[c], float64(s.n)), true
		}
	}
	base := top + rowHeight - 2
	return area(v, known, func(n float64) float64 { return base - (rowHeight-5)*max(n/float64(peak), .12) }, base)
}

// time draws what goes through everything: the axis, the gaps, and when a limit was reached.
func (d *drawing) time(run *Run) {
	step := tickOf(run.EndMS)
	for at := int64(0); at <= run.EndMS; at += step {
		d.Ticks = append(d.Ticks, place[string]{X: run.x(at), Y: d.Bottom + 16, Is: tickText(at, step)})
	}
	for i := 1; i < len(run.Samples); i++ {
		if a, b := &run.Samples[i-1], &run.Samples[i]; late(a, b) {
			d.Gaps = append(d.Gaps, box{run.x(a.AtMS), d.Top, max(run.x(b.AtMS)-run.x(a.AtMS), 2), d.Bottom - d.Top})
		}
	}
	for i, l := range run.Limits {
		if i == 6 {
			break
		}
		m := mark{X: run.x(l.AtMS), Y: d.Top + 8, Anchor: "start", Says: "limit reached: " + cut(strings.ReplaceAll(string(l.Name), "_", " "), 24)}
		if l.AtMS >= run.EndMS {
			m.Says += " (told at the end)"
		}
		if m.TextX = m.X + 4; m.X > (left+right)/2 {
			m.TextX, m.Anchor = m.X-4, "end"
		}
		for _, o := range d.Marks {
			if math.Abs(o.X-m.X) < 220 && o.Anchor == m.Anchor {
				m.Y = max(m.Y, o.Y+12)
			}
		}
		d.Marks = append(d.Marks, m)
	}
}

// tickOf is a distance of ticks that leaves room for their names.
func tickOf(end int64) int64 {
	for _, unit := range []int64{1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 360_000_000, 3_600_000_000} {
		for _, n := range []int64{1, 2, 5} {
			if end/(n*unit) <= 9 {
				return n * unit
			}
		}
	}
	return end
}

// tickText is a time on the axis, in the unit that its distances are whole in.
func tickText(at, step int64) string {
	for _, u := range []struct {
		ms   int64
		name string
	}{{3_600_000, "h"}, {60_000, "min"}, {1000, "s"}} {
		if step%u.ms == 0 {
			return strconv.FormatInt(at/u.ms, 10) + " " + u.name
		}
	}
	if step >= 100 && at >= 1000 {
		return trim(float64(at)/1000) + " s"
	}
	return strconv.FormatInt(at, 10) + " ms"
}

// wrap breaks a text of ours into lines.
func wrap(s string, columns int) (lines []string) {
	line := ""
	for _, w := range strings.Fields(s) {
		if line != "" && len(line)+1+len(w) > columns {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	return append(lines, line)
}

// wrapHard breaks a text of anybody's, wherever that is.
func wrapHard(s string, columns int) (lines []string) {
	line, n := "", 0
	for _, r := range s {
		if w := columnsOf(r); n+w > columns {
			lines, line, n = append(lines, line), "  ", 2
		}
		line += string(r)
		n += columnsOf(r)
	}
	return append(lines, line)
}
