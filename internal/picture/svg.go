package picture

import (
	"bytes"
	"embed"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

//go:embed templates
var files embed.FS

// shapes are the templates. They are parsed when something is drawn, and never at start.
func shapes(name string) (*template.Template, error) {
	style, err := files.ReadFile("templates/style.css")
	if err != nil {
		return nil, err
	}
	float := func(v any) float64 {
		switch v := v.(type) {
		case int:
			return float64(v)
		case float64:
			return v
		}
		return math.NaN()
	}
	return template.New(name).Funcs(template.FuncMap{
		"style": func() template.CSS { return template.CSS(style) },
		"n":     func(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) },
		"add":   func(a, b any) float64 { return float(a) + float(b) },
		"mul":   func(a, b any) float64 { return float(a) * float(b) },
		"neg":   func(a float64) float64 { return -a },
		"part":  func(of, share float64) float64 { return of * min(share, 1) },
	}).ParseFS(files, "templates/picture.svg", "templates/"+name)
}

// SVG draws it as one picture.
func (run *Run) SVG(to io.Writer) error {
	t, err := shapes("picture.svg")
	if err != nil {
		return err
	}
	return t.ExecuteTemplate(to, "picture.svg", run.draw())
}

// page is what the HTML shows.
type page struct {
	D         *drawing
	Hosts     []pageHost
	Refused   []pageRefusal
	Enforced  []pageCapability
	Processes []pageProcess
	Count     string
}

type pageHost struct {
	What, Class, Says, First, Bytes, Hint string
	Count                                 int64
}

type pageRefusal struct {
	What, First, By, Rule, Hint string
	Count                       int64
}

type pageCapability struct{ Name, Requested, Effective, Class, Mechanism, Details string }

type pageProcess struct {
	PID, Parent             int
	From, To, Exit, Command string
}

// mostListed bounds each table.
const mostListed = 2000

// HTML draws it as a page.
func (run *Run) HTML(to io.Writer) error {
	t, err := shapes("page.html")
	if err != nil {
		return err
	}
	p := page{D: run.draw()}
	hosts := run.hosts()
	for i := range hosts[:min(len(hosts), mostListed)] {
		a := &hosts[i]
		class, says, hint := verdictClass(a)
		says, _, _ = strings.Cut(says, " ")
		if hint == "" {
			hint = strings.Join(slices.DeleteFunc([]string{a.Rule, a.Why}, func(s string) bool { return s == "" }), ", ")
		}
		h := pageHost{What: cut(a.What, 200), Class: class, Says: strings.TrimSuffix(says, ","), Count: a.Count, First: span(a.FirstMS), Hint: cut(hint, 300)}
		if n := a.SentBytes + a.ReceivedBytes; n > 0 {
			h.Bytes = size(float64(n))
		}
		p.Hosts = append(p.Hosts, h)
	}
	refused := run.refusals()
	for i := range refused[:min(len(refused), mostListed)] {
		v := &refused[i]
		p.Refused = append(p.Refused, pageRefusal{cut(v.What, 300), span(v.FirstMS), cut(v.Comm, 40), cut(v.Rule, 80), cut(v.Hint, 300), v.Count})
	}
	p.enforced(run)
	for _, x := range run.Processes[:min(len(run.Processes), mostListed)] {
		row := pageProcess{PID: x.PID, Parent: x.Parent, From: span(x.StartedMS), To: span(x.GoneMS), Command: cut(x.command(), 400)}
		if x.Failed != nil {
			row.Exit = strconv.Itoa(*x.Failed)
		}
		p.Processes = append(p.Processes, row)
	}
	if p.Count = strconv.Itoa(len(run.Processes)); len(run.Processes) > mostListed {
		p.Count += ", the first " + strconv.Itoa(mostListed)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, "page.html", p); err != nil {
		return err
	}
	_, err = to.Write(b.Bytes())
	return err
}

// enforced is the ledger.
func (p *page) enforced(run *Run) {
	if run.Report == nil {
		return
	}
	ledger := run.Report.Enforced
	for _, c := range slices.Sorted(maps.Keys(ledger)) {
		e := ledger[c]
		row := pageCapability{Name: cut(strings.ReplaceAll(string(c), "_", " "), 40), Requested: cut(e.Requested, 60), Effective: "—", Mechanism: cut(e.Mechanism, 60), Details: cut(e.Details, 300)}
		if e.Enabled {
			row.Effective, row.Class = "not in full", "warn"
			if e.Effective {
				row.Effective, row.Class = "enforced", "ok"
			}
		}
		if e.FallbackReason != "" {
			row.Details = cut(string(e.FallbackReason)+" "+e.Details, 300)
		}
		p.Enforced = append(p.Enforced, row)
	}
}
