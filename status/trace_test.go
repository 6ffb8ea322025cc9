package status

import (
	"strings"
	"testing"
)

func TestTraceID(t *testing.T) {
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for _, c := range []struct {
		name, in string
		valid    bool
	}{
		{"valid", "00-" + trace + "-" + parent + "-01", true},
		{"not sampled", "00-" + trace + "-" + parent + "-00", true},
		{"a later version", "01-" + trace + "-" + parent + "-01", true},
		{"a later version with more", "01-" + trace + "-" + parent + "-01-what-comes", true},
		{"a later version with more and no dash", "01-" + trace + "-" + parent + "-01what", false},
		{"version 00 with more", "00-" + trace + "-" + parent + "-01-x", false},
		{"version ff", "ff-" + trace + "-" + parent + "-01", false},
		{"trace of zeros", "00-" + strings.Repeat("0", 32) + "-" + parent + "-01", false},
		{"parent of zeros", "00-" + trace + "-" + strings.Repeat("0", 16) + "-01", false},
		{"capitals", "00-" + strings.ToUpper(trace) + "-" + parent + "-01", false},
		{"not hexadecimal", "00-" + strings.Repeat("g", 32) + "-" + parent + "-01", false},
		{"flags not hexadecimal", "00-" + trace + "-" + parent + "-zz", false},
		{"too short", "00-" + trace[:31] + "-" + parent + "-01", false},
		{"other separators", "00_" + trace + "_" + parent + "_01", false},
		{"line break", "00-" + trace + "-" + parent + "-01\n", false},
		{"empty", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := TraceID(c.in)
			if len(got) != 32 || !isLowerHex(got) || allZeros(got) {
				t.Fatalf("%q is no trace id", got)
			}
			if (got == trace) != c.valid {
				t.Errorf("TraceID(%q) = %s, taken over: %v, want %v", c.in, got, got == trace, c.valid)
			}
		})
	}
	if a, b := TraceID(""), TraceID(""); a == b {
		t.Errorf("two runs share the trace id %s", a)
	}
}

func FuzzTraceID(f *testing.F) {
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Add("00-")
	f.Fuzz(func(t *testing.T, s string) {
		id := TraceID(s)
		if len(id) != 32 || !isLowerHex(id) || allZeros(id) {
			t.Fatalf("TraceID(%q) = %q", s, id)
		}
	})
}
