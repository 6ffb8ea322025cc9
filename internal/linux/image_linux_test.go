package linux

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// resident is what is mapped in of the executable's segment with this access, in KiB.
func resident(t *testing.T, access string) int {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(` ` + access + ` .* ` + regexp.QuoteMeta(exe) + `\n(?:\w+: .*\n)*?Rss: +(\d+) kB`).FindSubmatch(smaps)
	if m == nil {
		t.Fatalf("no %s of %s in\n%s", access, exe, smaps)
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}

func TestForget(t *testing.T) {
	for access, forget := range map[string]func(){"r--p": ForgetData, "r-xp": ForgetProgram} {
		resident(t, access)
		before := resident(t, access) // what asking for it needs is there now
		forget()
		if after := resident(t, access); after >= before {
			t.Errorf("%s: %d KiB, and then %d", access, before, after)
		}
	}
}
