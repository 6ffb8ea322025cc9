package windows

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

const runs = `C:\Users\u\AppData\Local\confine`

func placeOK(p string) bool { return isPlace(p, runs) }

func TestJournalIsReadAsItWasWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "j")
	want := opening{Version: journalVersion, SID: newSID(), PID: 7, Started: 8, Place: runs + `\confine-run-0123456789abcdef`}
	j, err := createJournal(name, want)
	must.Do(t, err)
	changes := []change{{Path: `C:\p`, Tree: true}, {Path: `C:\p\a b`, SACL: lowACL(false)}}
	for _, c := range changes {
		must.Do(t, j.write(c))
	}
	if _, err := createJournal(name, want); err == nil {
		t.Error("a journal that is there is written anew")
	}
	_ = j.close()
	text, err := os.ReadFile(name)
	must.Do(t, err)
	o, got, err := readJournal(strings.NewReader(string(text)), placeOK)
	if err != nil || o != want || !reflect.DeepEqual(got, changes) {
		t.Errorf("%+v, %+v, %v", o, got, err)
	}
	// A crash in the middle of a line: that change was never made.
	for cut := 1; cut < 20; cut++ {
		if _, got, err := readJournal(strings.NewReader(string(text[:len(text)-cut])), placeOK); err != nil || len(got) != 1 {
			t.Errorf("cut by %d: %+v, %v", cut, got, err)
		}
	}
}

// TestHostileJournal: of what somebody else has written no ACE but a run's is taken back, and nothing but a run's place is removed.
func TestHostileJournal(t *testing.T) {
	head := func(sid, place string) string {
		return `{"version":1,"sid":"` + sid + `","pid":1,"started":2,"place":"` + strings.ReplaceAll(place, `\`, `\\`) + `"}` + "\n"
	}
	const good = runs + `\confine-run-0123456789abcdef`
	ok := head(newSID(), good)
	if _, _, err := readJournal(strings.NewReader(ok), placeOK); err != nil {
		t.Fatal("control:", err)
	}
	for what, text := range map[string]string{
		"nothing":                     "",
		"no JSON":                     "x\n",
		"another version":             strings.Replace(ok, `"version":1`, `"version":2`, 1),
		"a field too many":            strings.Replace(ok, `"pid"`, `"x":1,"pid"`, 1),
		"administrators":              head("S-1-5-32-544", good),
		"the user's files":            head(newSID(), `C:\Users\u`),
		"the directory of runs":       head(newSID(), runs),
		"by dots":                     head(newSID(), runs+`\confine-run-0123456789abcdef\..\..`),
		"below a place":               head(newSID(), good+`\temp`),
		"another name":                head(newSID(), runs+`\confine-run-0123456789abcdeg`),
		"a stream":                    head(newSID(), good+`:x`),
		"a share":                     ok + `{"path":"\\\\server\\x"}` + "\n",
		"a device":                    ok + `{"path":"\\\\.\\PhysicalDrive0"}` + "\n",
		"a relative path":             ok + `{"path":"..\\x"}` + "\n",
		"a drive":                     ok + `{"path":"C:\\"}` + "\n",
		"a label that is none":        ok + `{"path":"C:\\x","sacl":"AAAA"}` + "\n",
		"a line that is none":         ok + "x\n",
		"a line without an end":       ok + `{"path":"` + strings.Repeat("x", 2*maxJournalLine) + `"}` + "\n",
		"a first line without an end": strings.Repeat("x", 2*maxJournalLine),
	} {
		if o, changes, err := readJournal(strings.NewReader(text), placeOK); err == nil {
			t.Errorf("%s is taken: %+v %+v", what, o, changes)
		}
	}
}

func FuzzJournal(f *testing.F) {
	f.Add(`{"version":1,"sid":"S-1-9-1129270854-1-2-3-4","pid":1,"started":2,"place":"C:\\Users\\u\\AppData\\Local\\confine\\confine-run-0123456789abcdef"}` + "\n" + `{"path":"C:\\x"}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		o, changes, err := readJournal(strings.NewReader(text), placeOK)
		if err != nil {
			return
		}
		if _, err := parseSID(o.SID); err != nil || !placeOK(o.Place) {
			t.Errorf("%+v", o)
		}
		for _, c := range changes {
			if checkPath(c.Path) != nil {
				t.Errorf("%+v", c)
			}
		}
	})
}
