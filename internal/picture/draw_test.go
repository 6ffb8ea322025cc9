package picture

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/confine-run/confine/internal/golden"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// names are what a run may call its processes, files and hosts.
var names = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</title></text><script>alert(1)</script>`, "--><script>alert(1)</script>", `]]><script>alert(1)</script>`,
	"javascript:alert(1)", "{{.}}", "&lt;&amp;", "a\x1b[31mred\x07\x9b1m", "\u202egnp.exe", "\u2066\u200b\u00ad", "\x00\x01\xff\xfe", "עברית ועוד עברית", "مرحبا", "日本語のなまえ日本語のなまえ日本語のなまえ",
	strings.Repeat("x", 1<<20), strings.Repeat("e\u0301\u0302\u0303\u0304", 1<<10), "", "\n\n\n", "%s%n", "\ufffe\uffff", "</style><style>*{display:none}",
}

// hostile is a run that has such names everywhere.
func hostile(names ...string) *lines {
	l := new(lines)
	l.begin(names...)
	for i, name := range names {
		at := int64(i * 10)
		l.process(at, 2+i, 1+i/2, name, name)
		l.sample(at, at, 1<<20)
		l.add(at, status.Event{Event: status.EventDenied, Denied: &status.Violation{Kind: "network", What: name, Count: 1, Rule: name, Comm: name, Hint: name}})
		l.add(at, status.Event{Event: status.EventDenied, Denied: &status.Violation{Kind: "file", What: name, Count: 1, Rule: name, Comm: name, Hint: name}})
		l.add(at, status.Event{Event: status.EventReached, Reached: &status.Attempt{What: name, Verdict: name, Protocol: name, Hint: name, Rule: name}})
		l.add(at, status.Event{Event: status.EventLimitHit, Limit: status.Capability("x" + name)})
	}
	l.end(int64(len(names)*10), func(r *status.Report) {
		r.Status, r.Reason, r.Enforced = status.Status(names[0]+names[8]), names[1], status.Ledger{}
		r.Usage.Sources["memory_peak_bytes"] = names[2]
		for _, name := range names {
			r.Violations = append(r.Violations, status.Violation{Kind: "file", What: name, Rule: name, Comm: name, Hint: name})
			r.Enforced[status.Capability("c"+name)] = status.Enforcement{Requested: name, Enabled: true, Mechanism: name, Details: name, FallbackReason: status.FallbackReason(name)}
		}
	})
	return l
}

// elements are all that a picture and a page are made of.
var elements = strings.Fields("svg title style defs pattern line rect g text path html head meta link body h2 table tr th td details summary")

// harmless looks for what a browser or a terminal would obey.
func harmless(t testing.TB, svg, html, trace, text string) {
	t.Helper()
	wellFormed(t, svg)
	body := html[strings.Index(html, "<body"):]
	wellFormed(t, body[:strings.LastIndex(body, "</html>")])
	var doc struct{ TraceEvents []map[string]any }
	if err := json.Unmarshal([]byte(trace), &doc); err != nil {
		t.Error("trace:", err)
	}
	for _, e := range doc.TraceEvents {
		ts, isTime := e["ts"].(float64)
		dur, long := e["dur"].(float64)
		if ph, _ := e["ph"].(string); !isTime || ts < 0 || long && dur < 0 || !strings.Contains("XCiM", ph) || long != (ph == "X") || e["name"] == nil || e["pid"] == nil {
			t.Fatalf("trace: %v", e)
		}
	}
	for name, s := range map[string]string{"svg": svg, "html": html, "text": text} {
		for i, r := range s {
			if r != '\n' && (unicode.Is(unicode.C, r) || r == unicode.ReplacementChar && s[i] != "\uFFFD"[0]) {
				t.Fatalf("%s: %U at %d: %q", name, r, i, s[max(0, i-40):min(len(s), i+40)])
			}
		}
	}
}

// wellFormed holds what is drawn to its own elements, and to attributes that make nothing happen.
func wellFormed(t testing.TB, s string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(s))
	d.Entity = xml.HTMLEntity
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%v\n%.2000s", err, s)
		}
		e, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		if !slices.Contains(elements, e.Name.Local) {
			t.Fatalf("an element <%s>", e.Name.Local)
		}
		for _, a := range e.Attr {
			if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" || a.Name.Local == "src" || strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
				t.Fatalf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
}

func TestHostileNamesAreHarmless(t *testing.T) {
	run := hostile(names...).read(t)
	svg, html, trace, text := drawn(t, run)
	harmless(t, svg, html, trace, text)
	for name, s := range map[string]string{"svg": svg, "html": html, "trace": trace, "text": text} {
		if len(s) > 400<<10 {
			t.Errorf("%s has %d bytes: names are not cut", name, len(s))
		}
	}
	if !strings.Contains(html, "&lt;script&gt;") { // the control: the names are there
		t.Error("no name is shown")
	}
	for _, l := range strings.Split(text, "\n") {
		if widthOf(l) > 100 {
			t.Errorf("%d columns: %q", widthOf(l), l)
		}
	}
}

// crowd is a run of an hour with a thousand processes, by eight at a time, and a gap.
func crowd() *lines {
	l := new(lines)
	l.begin("make", "-j8")
	l.process(0, 2, 1, "make", "-j8")
	every := int64(20)
	next, alive := 3, map[int]int64{}
	for at, n := int64(0), 0; at < 3_600_000; at, n = at+every, n+1 {
		for pid, started := range alive {
			if at-started > int64(5000+pid*29) {
				l.gone(at, pid, started)
				delete(alive, pid)
			}
		}
		for len(alive) < 8 && next < 1002 {
			l.process(at, next, 2, []string{"cc", "as", "ld"}[next%3], fmt.Sprintf("file%d.c", next))
			alive[next] = at
			next++
		}
		if at < 1_800_000 || at > 1_900_000 {
			l.add(at, status.Event{Event: status.EventSample, Sample: &status.Sample{EveryMS: every, CPUMS: number(at + at/2), MemoryBytes: number(int64(8+n%7) << 20), Tasks: number(9)}})
		}
		if n%500 == 499 {
			every *= 2
		}
	}
	l.end(3_600_000, nil)
	return l
}

func TestAnHourAndAThousandProcessesFitOnAPage(t *testing.T) {
	run := crowd().read(t)
	if len(run.Processes) < 1000 || run.gaps() != 1 {
		t.Fatal(len(run.Processes), run.gaps())
	}
	d := run.draw()
	if d.Height > 1000 {
		t.Errorf("it is %v high", d.Height)
	}
	svg, html, _, text := drawn(t, run)
	if len(svg) > 200<<10 || !strings.Contains(svg, "as ×333") || !strings.Contains(svg, "no samples") || !strings.Contains(svg, "60 min") {
		t.Errorf("%d bytes\n%.3000s", len(svg), svg)
	}
	if !strings.Contains(html, "file1001.c") {
		t.Error("the table has not all of them")
	}
	if n := strings.Count(text, "\n"); n > 40 {
		t.Errorf("%d lines", n)
	}
}

// A gap is no zero, and a sample's level stays until the next.
func TestGapsStayGaps(t *testing.T) {
	l := new(lines)
	l.begin("x")
	for _, at := range []int64{0, 20, 40, 800, 820, 1000} {
		l.sample(at, at, 1<<20)
	}
	l.end(1000, nil)
	run := l.read(t)
	for name, s := range map[string]*series{
		"level": run.level(10, func(s *Sample) *int64 { return s.MemoryBytes }),
		"rate":  run.rate(10, func(s *Sample) *int64 { return s.CPUMS }, nil),
	} {
		for c, want := range []bool{true, false, false, false, false, false, false, false, true, true} {
			if s.known[c] != want {
				t.Errorf("%s: column %d is known: %v", name, c, s.known[c])
			}
		}
	}
	if r := run.rate(10, func(s *Sample) *int64 { return s.CPUMS }, nil); r.top[0] < 990 || r.top[0] > 1010 || r.top[9] < 990 {
		t.Error(r.top)
	}
}

// A peak that no sample has seen is there all the same, and isn't made of samples.
func TestThePeakIsALineOfItsOwn(t *testing.T) {
	l := small()
	l.end(120, func(r *status.Report) { r.Usage.MemoryPeakBytes = 300 << 20 })
	run := l.read(t)
	if peak, source := run.peak(); peak != 300<<20 || source != "cgroup" {
		t.Error(peak, source)
	}
	memory := run.draw().Bands[1]
	if memory.Lines[0].Class != "peak" || memory.Lines[0].Y > memory.Y+memory.H/2 {
		t.Errorf("%+v", memory)
	}
	if s := run.level(columns, func(s *Sample) *int64 { return s.MemoryBytes }); s.highest() != 30<<20 {
		t.Error("the samples are drawn as", s.highest())
	}
}

func TestOneNameBelowOneIsOneRow(t *testing.T) {
	l := new(lines)
	l.begin("sh")
	l.process(0, 2, 1, "sh", "bomb.sh")
	for i := range 300 {
		l.process(int64(i), 3+i, 2+i, "sh", "bomb.sh") // each starts the next
	}
	l.process(400, 500, 77, "sleep", "1")
	l.end(500, nil)
	rows := l.read(t).rows()
	if len(rows) != 2 || len(rows[0].all) != 301 || rows[1].name != "sleep" || rows[1].depth != 1 {
		t.Errorf("%d rows: %+v", len(rows), rows)
	}
	if _, peak := rows[0].together(); peak != 301 {
		t.Error(peak)
	}
}

func TestManyRowsAreFew(t *testing.T) {
	l := new(lines)
	l.begin("x")
	for i := range 500 {
		l.process(int64(i), 2+i, 1+i/3, fmt.Sprintf("p%d", i))
	}
	l.end(1000, nil)
	run := l.read(t)
	kept := most(run.rows(), mostRows)
	n := 0
	for _, r := range kept {
		n += len(r.all)
	}
	if len(kept) != mostRows || n != 500 || !kept[len(kept)-1].further {
		t.Errorf("%d rows, %d processes", len(kept), n)
	}
}

func TestTextIsPlainWhereNothingElseCanBeShown(t *testing.T) {
	l := small()
	l.end(120, func(r *status.Report) { r.Status, r.Reason = status.Timeout, "wall-clock limit of 1s reached" })
	run := l.read(t)
	var plain, color strings.Builder
	must.Do(t, run.Text(&plain, Pen{Width: 60, ASCII: true}))
	must.Do(t, run.Text(&color, Pen{Width: 60, Color: true}))
	for _, r := range plain.String() {
		if r >= 0x80 || r == 0x1b {
			t.Fatalf("%q in\n%s", r, plain.String())
		}
	}
	for _, want := range []string{"TIMEOUT  wall-clock limit", "make test", "no.example", "--allow-network no.example", "cc x2"} {
		if !strings.Contains(plain.String(), want) {
			t.Errorf("no %q in\n%s", want, plain.String())
		}
	}
	if !strings.Contains(color.String(), "\x1b[31mTIMEOUT\x1b[0m") {
		t.Error(color.String())
	}
}

func TestCut(t *testing.T) {
	for in, want := range map[string]string{
		"short": "short", "0123456789": "0123456789", "0123456789a": "012345678…", "日本語日本": "日本語日本", "日本語日本語": "日本語日…",
		"a\nb": `a\nb`, "e\u0301\u0302\u0303\u0304": "e\u0301\u0302", "": "",
	} {
		if got := cut(in, 10); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestThePictureOfTheREADME holds docs/picture.svg to what is drawn of a record that a real run has left. UPDATE_GOLDEN=1 writes it.
func TestThePictureOfTheREADME(t *testing.T) {
	f, err := os.Open("testdata/shop.record")
	must.Do(t, err)
	defer f.Close()
	run, err := Read(f)
	must.Do(t, err)
	svg, _, _, _ := drawn(t, run)
	golden.Check(t, "../../docs/picture.svg", svg)
}
