package linux

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// resident is what is mapped in of the executable's read-only data, in KiB.
func resident(t *testing.T) int {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(` r--p .* ` + regexp.QuoteMeta(exe) + `\n(?:\w+: .*\n)*?Rss: +(\d+) kB`).FindSubmatch(smaps)
	if m == nil {
		t.Fatalf("no read-only data of %s in\n%s", exe, smaps)
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}

func TestForgetImage(t *testing.T) {
	resident(t)
	before := resident(t) // what asking for it needs is there now
	ForgetImage()
	if after := resident(t); after >= before {
		t.Errorf("%d KiB, and then %d", before, after)
	}
}
