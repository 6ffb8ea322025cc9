package learn

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/status"
)

func TestTemporaryNames(t *testing.T) {
	for name, want := range map[string]bool{
		"tmpab12cd34": true, "tmp_x8f3k2a": true, ".main.go.swp": true, "out.txt.tmp": true, "x~": true, "ccAb12Cd.o": true,
		"go-build1234567890": true, "550e8400-e29b-41d4-a716-446655440000": true, "d41d8cd98f00b204e9800998ecf8427e": true, "lock.12345678": true,
		".goutputstream-X1Y2Z3": true, "file.part": true, "index.lock": true, "a.XyZ12q": true,
		"main.go": false, "README.md": false, "results": false, "out": false, "2024-report": false, "libfoo.so.1.2.3": false, "deadbeef": false,
		"CMakeLists.txt": false, "Makefile": false, "package-lock.json": false, "HelloWorld.java": false, "x86_64": false, "utf8": false, "~": false, ".tmp": false,
		"test_user_model.py": false, "NOTES": false, "python3": false,
	} {
		if got := isTemp(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTimesAreWordedToTheMillisecond(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "less than 1ms", 4*time.Millisecond + 1: "4ms", 999 * time.Millisecond: "999ms", 1234 * time.Millisecond: "1.23s", 20 * time.Second: "20.0s"} {
		if got := shortTime(d); got != want {
			t.Errorf("%v: %s, not %s", d, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		s    Seen
		want string
	}{
		{Seen{Wall: 50 * time.Millisecond, Usage: status.Usage{CPUMS: 10, MemoryPeakBytes: 1 << 20, TasksPeak: 1}},
			"10s 2s 64M 16 64M"},
		{Seen{Wall: 100 * time.Second, Usage: status.Usage{CPUMS: 250_000, MemoryPeakBytes: 700 << 20, TasksPeak: 40}, Descriptors: 256, Written: 3 << 30, Output: 10 << 20},
			"5m 15m 1536M 96 512 6G 24M 325 4"},
		{Seen{Wall: 4 * time.Second, Usage: status.Usage{CPUMS: 1900, MemoryPeakBytes: 30 << 20, TasksPeak: 9}},
			"15s 10s 64M 24 64M 75"},
	} {
		var got []string
		for _, l := range c.s.limits() {
			got = append(got, strings.Trim(l.Value, `"`))
			if l.Why == "" {
				t.Errorf("%s has no reason", l.Key)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v, want %s", got, c.want)
		}
	}
}

// TestRecorderIsBounded: by how many names there are, and by how long they are.
func TestRecorderIsBounded(t *testing.T) {
	var long, short Recorder
	name := "/" + strings.Repeat("x", 8<<10)
	for i := range most {
		long.Add(Access{Path: name + strconv.Itoa(i), Op: Look})
		short.Add(Access{Path: "/" + strconv.Itoa(i), Op: Look})
		short.Add(Access{Path: "/0", Op: Look})
	}
	list, lost := long.Accesses()
	if size := len(list) * len(name); size > mostBytes || size < mostBytes/2 || int(lost)+len(list) != most {
		t.Errorf("%d names of %d bytes kept, %d lost", len(list), len(name), lost)
	}
	long = Recorder{}
	long.Add(Access{Path: strings.Repeat("/x", mostDeep), Op: Create})
	long.Add(Access{Path: strings.Repeat("/x", mostDeep+1), Op: Create})
	if list, lost := long.Accesses(); len(list) != 1 || lost != 1 {
		t.Errorf("%d deep names kept, %d lost", len(list), lost)
	}
	short.Add(Access{Path: "/one more", Op: Look})
	if list, lost := short.Accesses(); len(list) != most || lost != 1 {
		t.Errorf("%d short names kept, %d lost", len(list), lost)
	}
}
