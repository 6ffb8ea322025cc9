package qemu

import (
	"runtime"
	"slices"
	"testing"
)

func TestTheFrequencyIsToldIfItIsKnown(t *testing.T) {
	at := func(ticks uint64, ms int64) moment { return moment{ticks, ms * 1e6} }
	for name, c := range map[string]struct {
		from, to moment
		want     uint64
	}{
		"2.3 GHz": {at(1e9, 10), at(1e9+230e6, 110), 2300000}, "too short": {at(0, 0), at(23e6, 10), 0}, "it stands": {at(5, 0), at(5, 100), 0},
		"backwards": {at(1e9, 0), at(1, 100), 0}, "too slow for a CPU": {at(0, 0), at(1000, 100), 0}, "too fast": {at(0, 0), at(1e12, 100), 0},
	} {
		if got := kilohertz(c.from, c.to); got != c.want {
			t.Errorf("%s: %d", name, got)
		}
	}
	argv := []string{"qemu", "-append", "quiet", "-S"}
	if got := told(argv, 2300000); !slices.Equal(got, []string{"qemu", "-append", "tsc_early_khz=2300000 quiet", "-S"}) || argv[2] != "quiet" {
		t.Errorf("%q of %q", got, argv)
	}
	for _, argv := range [][]string{{"qemu", "-append"}, {"qemu"}} {
		if got := told(argv, 1); !slices.Equal(got, argv) {
			t.Errorf("%q of %q", got, argv)
		}
	}
	if got := told(argv, 0); !slices.Equal(got, argv) {
		t.Errorf("unknown: %q", got)
	}
	if a, b := momentNow(), momentNow(); runtime.GOARCH == "amd64" && (b.ticks <= a.ticks || b.clock < a.clock) {
		t.Errorf("%+v, then %+v", a, b)
	}
}
