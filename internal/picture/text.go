package picture

import (
	"io"
	"math"
	"strconv"
	"strings"
)

// Pen is how a terminal is drawn on.
type Pen struct {
	Width int
	Color bool
	ASCII bool // nothing else can be shown
}

func (p *Pen) paint(class, s string) string {
	code := map[string]string{"ok": "32", "bad": "31", "warn": "33", "m": "2"}[class]
	if !p.Color || code == "" || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

const (
	blocks      = "▁▂▃▄▅▆▇█"
	blocksASCII = ".:-=+*#@"
)

// text is a picture of lines.
type text struct {
	*Pen
	run         *Run
	b           strings.Builder
	names, plot int // columns
	says        int
}

// Text draws it in lines of a terminal.
func (run *Run) Text(to io.Writer, pen Pen) error {
	pen.Width = min(max(pen.Width, 40), 400)
	t := &text{Pen: &pen, run: run}
	t.names = min(max(pen.Width/4, 12), 32)
	t.says = min(max(pen.Width/4, 12), 34)
	t.plot = pen.Width - t.names - t.says - 2
	t.head()
	t.bands()
	t.attempts()
	t.processes()
	t.line("")
	for _, n := range run.notes() {
		for _, l := range wrap(n, pen.Width) {
			t.line(t.paint("m", l))
		}
	}
	s := t.b.String()
	if pen.ASCII {
		s = ascii(s)
	}
	_, err := io.WriteString(to, s)
	return err
}

// ascii writes our own characters with those that any terminal has, and others as escapes.
func ascii(s string) string {
	own := strings.NewReplacer("×", "x", "…", "~", "·", "-", "µ", "u", "—", "-")
	var b strings.Builder
	for _, r := range own.Replace(s) {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

// cut is [cut], of what is to be shown.
func (t *text) cut(s string, columns int) string {
	if t.ASCII {
		s = ascii(s[:min(len(s), 16*columns)])
	}
	return cut(s, columns)
}

func (t *text) line(s string) { t.b.WriteString(strings.TrimRight(s, " ") + "\n") }

// row is a line of a name, something over time, and figures.
func (t *text) row(class, name, plot, says string) {
	t.line(pad(t.cut(name, t.names), t.names) + " " + pad(plot, t.plot) + " " + t.paint(class, t.cut(says, t.says)))
}

func (t *text) head() {
	word, why, class := t.run.verdict()
	t.line(t.paint(class, word) + "  " + t.cut(firstLine(why), t.Width-len(word)-2))
	t.line(t.cut("$ "+strings.Join(t.run.Record.Cmd, " "), t.Width))
	t.line("")
	for _, f := range t.run.facts() {
		class := ""
		if f.Bad {
			class = "bad"
		}
		t.line(pad(f.Name, t.names) + " " + t.paint(class, pad(f.Value, 16)) + " " + t.paint("m", f.Of))
	}
	var parts []string
	var all int64
	for _, p := range t.run.Phases {
		all += p.US
		parts = append(parts, phaseText(p.Name)+" "+micro(p.US))
	}
	if all > 0 {
		t.line(t.cut(pad("Before it ran", t.names)+" "+pad(micro(all), 16)+" "+strings.Join(parts, ", "), t.Width))
	}
}

func (t *text) bands() {
	if len(t.run.Samples) == 0 {
		return
	}
	t.line("")
	l := &t.run.Record.Limits
	cpu := t.run.rate(t.plot, func(s *Sample) *int64 { return s.CPUMS }, nil)
	for i := range cpu.top {
		cpu.top[i] = min(cpu.top[i]/1000, float64(t.run.Record.CPUs))
	}
	t.row("", "CPU", t.spark(cpu, max(cpu.highest(), 1)), trim(cpu.highest())+" of "+plural(int64(t.run.Record.CPUs), "core", "cores")+" at most")
	peak, _ := t.run.peak()
	memory := t.run.level(t.plot, func(s *Sample) *int64 { return s.MemoryBytes })
	t.row("", "Memory", t.spark(memory, scaleOf(float64(peak), float64(l.MemoryBytes))), "peak "+size(float64(peak)))
	tasks := t.run.level(t.plot, func(s *Sample) *int64 { return s.Tasks })
	t.row("", "Tasks", t.spark(tasks, scaleOf(float64(t.run.mostTasks()), float64(l.Tasks))), "peak "+strconv.FormatInt(t.run.mostTasks(), 10))
	axis := strings.Repeat(" ", t.names) + " 0" + strings.Repeat(" ", max(t.plot-1-len(span(t.run.EndMS)), 1)) + span(t.run.EndMS)
	t.line(t.paint("m", axis))
}

// scaleOf is what is highest on a scale: the limit, where that isn't far away.
func scaleOf(peak, limit float64) float64 {
	if limit > 0 && limit <= 4*peak {
		return max(limit, peak)
	}
	return peak
}

// spark is a figure over time, a character for a column. A gap is blank.
func (t *text) spark(s *series, most float64) string {
	levels := []rune(blocks)
	if t.ASCII {
		levels = []rune(blocksASCII)
	}
	var b strings.Builder
	for i, v := range s.top {
		switch {
		case !s.known[i]:
			b.WriteByte(' ')
		case most <= 0:
			b.WriteRune(levels[0])
		default:
			b.WriteRune(levels[min(max(int(math.Ceil(v/most*float64(len(levels))))-1, 0), len(levels)-1)])
		}
	}
	return b.String()
}

func (t *text) column(ms int64) int {
	return min(int(ms*int64(t.plot)/t.run.EndMS), t.plot-1)
}

// dash is something between two times.
func (t *text) dash(from, to int64, mark string) string {
	a, b := t.column(from), t.column(to)
	return strings.Repeat(" ", a) + strings.Repeat(mark, b-a+1)
}

func (t *text) attempts() {
	solid := "━"
	if t.ASCII {
		solid = "="
	}
	if hosts := t.run.hosts(); len(hosts) > 0 {
		t.line("")
		t.line("Network")
		for i := range hosts[:min(len(hosts), mostHosts)] {
			a := &hosts[i]
			class, says, hint := verdictClass(a)
			t.row(class, "  "+a.What, t.dash(a.FirstMS, a.LastMS, solid), says)
			t.hint(hint)
		}
		t.more(len(hosts)-mostHosts, "host", "hosts")
	}
	if all := t.run.refusals(); len(all) > 0 {
		t.line("")
		t.line("Refused")
		for i := range all[:min(len(all), mostKinds)] {
			v := &all[i]
			t.row("bad", "  "+v.What, t.dash(v.FirstMS, v.LastMS, solid), strings.TrimSpace("refused "+times(v.Count)))
			t.hint(v.Hint)
		}
		t.more(len(all)-mostKinds, "kind", "kinds")
	}
}

func (t *text) hint(hint string) {
	if strings.HasPrefix(hint, "--") {
		hint = "to allow it: " + hint
	}
	if hint != "" {
		t.line(t.paint("m", t.cut("    "+hint, t.Width)))
	}
}

func (t *text) more(n int, one, many string) {
	if n > 0 {
		t.line("  and " + plural(int64(n), "further "+one, "further "+many))
	}
}

const mostTextRows = 24

func (t *text) processes() {
	rows := most(t.run.rows(), mostTextRows)
	if len(rows) == 0 {
		return
	}
	t.line("")
	t.line("Processes")
	for _, r := range rows {
		indent := strings.Repeat(" ", 2+min(r.depth, 6))
		name := indent + t.cut(r.label(), t.names-len(indent))
		says := span(min(r.busy, mostTime))
		steps, peak := r.together()
		if n := len(r.all); n > 1 || r.further {
			count := " " + times(int64(n))
			name = indent + t.cut(r.label(), max(t.names-len(indent)-widthOf(count), 4)) + count
			says = strconv.Itoa(peak) + " seen at once"
			if peak <= 1 {
				says = span(r.busy) + " in all"
			}
		}
		class := "m"
		switch {
		case r.failed > 0 && len(r.all) == 1:
			class, says = "bad", says+", exit "+strconv.Itoa(*r.all[0].Failed)
		case r.failed > 0:
			class, says = "bad", says+", "+strconv.Itoa(r.failed)+" failed"
		}
		t.row(class, name, t.crowd(steps, peak), says)
	}
}

// crowd is how many of a row there were at once.
func (t *text) crowd(steps []step, peak int) string {
	s := newSeries(t.plot)
	for i, st := range steps {
		if st.n == 0 {
			continue
		}
		end := t.run.EndMS
		if i+1 < len(steps) {
			end = min(steps[i+1].at, end)
		}
		for c := t.column(st.at); c <= t.column(max(end-1, st.at)); c++ {
			s.known[c], s.top[c] = true, max(s.top[c], float64(st.n))
		}
	}
	return t.spark(s, float64(peak))
}
