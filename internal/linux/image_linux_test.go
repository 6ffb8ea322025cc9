package linux

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

// resident is what is mapped in of the executable's segment with this access, in KiB.
func resident(t *testing.T, access string) int {
	t.Helper()
	exe, err := os.Executable()
	must.Do(t, err)
	smaps, err := os.ReadFile("/proc/self/smaps")
	must.Do(t, err)
	m := regexp.MustCompile(` ` + access + ` .* ` + regexp.QuoteMeta(exe) + `\n(?:\w+: .*\n)*?Rss: +(\d+) kB`).FindSubmatch(smaps)
	if m == nil {
		t.Fatalf("no %s of %s in\n%s", access, exe, smaps)
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}

func TestForgetImage(t *testing.T) {
	for _, access := range []string{"r--p", "r-xp"} {
		resident(t, access)
		before := resident(t, access) // what asking for it needs is there now
		ForgetImage()
		if after := resident(t, access); after >= before {
			t.Errorf("%s: %d KiB, and then %d", access, before, after)
		}
	}
}
