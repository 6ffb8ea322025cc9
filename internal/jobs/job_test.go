package jobs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

func valid() *Job {
	return &Job{Version: 1, Key: Key{"default", "abc", 0}, Run: 1, Priority: "normal", Argv: []string{"true"}, MaxAttempts: 3}
}

func TestJobsThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(*Job){
		"":                                    func(*Job) {},
		"version":                             func(j *Job) { j.Version = 2 },
		"an account with a dot":               func(j *Job) { j.Key.Account = "a.b" },
		"an account that is a wildcard":       func(j *Job) { j.Key.Account = "*" },
		"a batch that leads out":              func(j *Job) { j.Key.Batch = ".." },
		"a negative index":                    func(j *Job) { j.Key.Index = -1 },
		"no command":                          func(j *Job) { j.Argv = nil },
		"a command with a byte 0":             func(j *Job) { j.Argv = []string{"a\x00b"} },
		"no attempts":                         func(j *Job) { j.MaxAttempts = 0 },
		"an option of the caller's side":      func(j *Job) { j.Policy = []Setting{{"report", []string{"/etc/passwd"}}} },
		"an option of files alone":            func(j *Job) { j.Policy = []Setting{{"protect", []string{"none"}}} },
		"a file of policy":                    func(j *Job) { j.Policy = []Setting{{"config", []string{"/etc/x"}}} },
		"an input that is no digest":          func(j *Job) { j.Input = "../x" },
		"a priority that there isn't":         func(j *Job) { j.Priority = "urgent" },
		"a time to live before its beginning": func(j *Job) { j.TTL = -1 },
		"a pattern that is none":              func(j *Job) { j.Output = []string{"[a"} },
		"a pattern of a million others":       func(j *Job) { j.Output = []string{strings.Repeat("{a,a}", 20)} },
	} {
		j := valid()
		change(j)
		text, err := json.Marshal(j)
		must.Do(t, err)
		if _, err := ParseJob(text); (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestASubjectSaysTheSameAsItsJob(t *testing.T) {
	text, _ := json.Marshal(valid())
	if _, err := Read("confine.jobs.normal.default.abc.0", nil, text); err != nil {
		t.Error(err)
	}
	for _, subject := range []string{"confine.jobs.normal.team.abc.0", "confine.jobs.high.default.abc.0", "confine.jobs.normal.default.abc.1", "confine.jobs.normal.default.abc"} {
		if _, err := Read(subject, nil, text); err == nil {
			t.Errorf("%s: a job of another account, or with another priority, was read", subject)
		}
	}
}

func TestKeys(t *testing.T) {
	for _, s := range []string{"", "a", "a.b", "a.b.c", "a.b.-1", "a.b.01", "a.b.1.2", "*.b.1", "a.>.1", "a.b.99999999999999999999", ".b.1"} {
		if k, err := ParseKey(s); err == nil {
			t.Errorf("%q is %+v", s, k)
		}
	}
	k := Key{"a", "b", 10}
	if got, err := ParseKey(k.String()); err != nil || got != k {
		t.Errorf("%v, %v", got, err)
	}
}

func FuzzParseJob(f *testing.F) {
	text, _ := json.Marshal(valid())
	f.Add(text)
	f.Add([]byte(`{"version":1,"key":{"account":"a","batch":"b","index":0},"run":1,"argv":["x"],"policy":[{"option":"allow-read","values":["/"]}],"ttl":1e300}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		j, err := ParseJob(text)
		if err != nil {
			return
		}
		if strings.ContainsAny(j.subject(), "*> ") || strings.Count(j.subject(), ".") != 5 {
			t.Errorf("%q is the subject of one job", j.subject())
		}
		again, err := json.Marshal(j)
		must.Do(t, err)
		if _, err := ParseJob(again); err != nil {
			t.Error(err)
		}
	})
}
