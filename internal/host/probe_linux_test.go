package host

import (
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAnswersComeThroughThePipe(t *testing.T) {
	sent := answers{{"mountns", "", 0}, {"tmpfs", "fsopen(tmpfs)", unix.EPERM}, {"pidns", "getpid gives 7", unsaid}}
	text := ""
	for _, a := range sent {
		text += a.line()
	}
	if got := parseAnswers(text); !reflect.DeepEqual(got, sent) {
		t.Errorf("got %+v, want %+v", got, sent)
	}
	if got := parseAnswers(text[:len(text)-1]); len(got) != 2 {
		t.Errorf("a cut line counts: %+v", got)
	}
	if got := parseAnswers("fatal error: no\n\n 1 x\nx y z\n"); got != nil {
		t.Errorf("something else counts: %+v", got)
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add("tmpfs 1 fsopen(tmpfs)\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range parseAnswers(text) {
			if again := parseAnswers(a.line()); len(again) != 1 || again[0] != a {
				t.Fatalf("%q becomes %+v", a.line(), again)
			}
		}
	})
}

func TestJudge(t *testing.T) {
	overlay, _ := find("overlay")
	for name, c := range map[string]struct {
		done   answers
		want   Answer
		detail string
	}{
		"tried and given":      {answers{{"overlay", "", 0}}, Yes, ""},
		"tried and refused":    {answers{{"overlay", "fsopen(overlay)", unix.ENODEV}}, No, "fsopen(overlay): ENODEV"},
		"refused by us":        {answers{{"overlay", "too old", unsaid}}, No, "too old"},
		"its need refused":     {answers{{"tmpfs", "x", unix.EPERM}}, No, "needs tmpfs"},
		"need of need refused": {answers{{"userns", "x", unix.EPERM}}, No, "needs tmpfs"},
		"not reached":          {answers{{"tmpfs", "", 0}}, Unknown, "ended before"},
	} {
		t.Run(name, func(t *testing.T) {
			if r := overlay.judge(c.done, nil); r.Answer != c.want || !strings.Contains(r.Detail, c.detail) {
				t.Errorf("%s (%s), want %s (%s)", r.Answer, r.Detail, c.want, c.detail)
			}
		})
	}
}

func TestEveryStepHasAProbe(t *testing.T) {
	for _, e := range table {
		found := 0
		for _, s := range steps {
			if s.name == e.name {
				found++
			}
		}
		for _, ns := range namespaces {
			if ns.probe == e.name && !hasStep(e.name) {
				found++
			}
		}
		if e.name == "uid_map" {
			found++
		}
		if found != 1 {
			t.Errorf("%s is tried in %d places", e.name, found)
		}
	}
}
