package main

import (
	"os"
	"strings"
	"testing"
)

func TestTracesSayWhatIsLeft(t *testing.T) {
	before := traces{mounts: 20, files: 3, cgroups: 7, descriptors: 9}
	if left := before.beyond(before); left != nil {
		t.Errorf("nothing is left, but: %v", left)
	}
	if left := (traces{mounts: 19, files: 3, cgroups: 7, descriptors: 9}).beyond(before); left != nil {
		t.Errorf("less is nothing left, but: %v", left)
	}
	for want, after := range map[string]traces{
		"2 mounts left":      {22, 3, 7, 9},
		"1 files left":       {20, 4, 7, 9},
		"1 cgroups left":     {20, 3, 8, 9},
		"1 descriptors left": {20, 3, 7, 10},
	} {
		if left := after.beyond(before); left == nil || left.Error() != want {
			t.Errorf("%v, want %q", left, want)
		}
	}
}

// The control of all that is found to leave nothing.
func TestAFileLeftShows(t *testing.T) {
	b := &bench{scratch: t.TempDir()}
	before, err := b.traces()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.scratch+"/left", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	after, err := b.traces()
	if err != nil {
		t.Fatal(err)
	}
	if left := after.beyond(before); left == nil || left.Error() != "1 files left" {
		t.Errorf("%v", left)
	}
}

func TestChosen(t *testing.T) {
	if all, err := chosen(nil); err != nil || len(all) != len(measurements) {
		t.Errorf("all: %d, %v", len(all), err)
	}
	if one, err := chosen([]string{"memory"}); err != nil || len(one) != 1 || one[0].name != "memory" {
		t.Errorf("one: %v, %v", one, err)
	}
	if _, err := chosen([]string{"speed"}); err == nil || !strings.Contains(err.Error(), "start") {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestWhoIsMissingIsNotJudged(t *testing.T) {
	r := &result{unit: "ms", base: "bwrap"}
	one := peer{"confine", func() (reading, error) { return reading{value: 1}, nil }}
	if err := r.compare([]peer{one}, 3, "confine", atMost(1)); err != nil {
		t.Fatal(err)
	}
	if r.verdict != absent {
		t.Errorf("verdict %q", r.verdict)
	}
	if text := section(&measurements[0], r); !strings.Contains(text, "bwrap is missing") {
		t.Errorf("not said:\n%s", text)
	}
}

func TestJudgedByTheRatio(t *testing.T) {
	for _, c := range []struct {
		value float64
		want  verdict
	}{{1.25, met}, {1.26, missed}} {
		r := &result{base: "base"}
		peers := []peer{
			{"base", func() (reading, error) { return reading{value: 1}, nil }},
			{"confine", func() (reading, error) { return reading{value: c.value}, nil }},
		}
		if err := r.compare(peers, 3, "confine", atMost(1.25)); err != nil || r.verdict != c.want {
			t.Errorf("%v: %q, %v", c.value, r.verdict, err)
		}
	}
}

func TestMountsInBwrapsWords(t *testing.T) {
	for _, c := range []struct{ path, access, want string }{
		{"/usr", "read", "--ro-bind /usr /usr"},
		{"/tmp", "private", "--tmpfs /tmp"},
		{"/proc", "read", ""},
		{"/proc/self", "hidden", "--tmpfs /proc/self"},
		{"/proc/cpuinfo", "hidden", "--ro-bind /dev/null /proc/cpuinfo"},
		{"/not there", "read", ""},
	} {
		if got := strings.Join(bwrapMount(c.path, c.access), " "); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.path, c.access, got, c.want)
		}
	}
}

func TestManyRulesAreAboutTreesThatAreThere(t *testing.T) {
	b := &bench{scratch: t.TempDir()}
	words, err := b.manyRules("--ro-bind DIR DIR")
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Fields(words)
	seen := map[string]bool{}
	for i := 0; i+2 < len(list); i += 3 {
		if st, err := os.Stat(list[i+1]); list[i] != "--ro-bind" || list[i+1] != list[i+2] || err != nil || !st.IsDir() {
			t.Errorf("%q: %v", list[i:i+3], err)
		}
		seen[list[i+1]] = true
	}
	if len(list) != 3*many || len(seen) != many {
		t.Errorf("%d words, %d trees", len(list), len(seen))
	}
}
