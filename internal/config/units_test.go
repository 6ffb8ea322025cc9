package config

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
		err  error
	}{
		{"1", 1, nil}, {"4096", 4096, nil}, {"4096b", 4096, nil}, {"1k", 1024, nil}, {"1K", 1024, nil}, {"1KB", 1024, nil},
		{"1KiB", 1024, nil}, {"512M", 512 << 20, nil}, {"512MiB", 512 << 20, nil}, {"512mib", 512 << 20, nil}, {"1G", 1 << 30, nil},
		{"1.5G", 3 << 29, nil}, {".5K", 512, nil}, {"1.K", 1024, nil}, {"2T", 2 << 40, nil}, {"1P", 1 << 50, nil}, {"7E", 7 << 60, nil},
		{"9007199254740993", 1<<53 + 1, nil}, // a float would lose the last digit
		{"9223372036854775807", math.MaxInt64, nil}, {"7.999999999999999999E", 9223372036854775806, nil},
		{"0.9999999999999999999999999K", 1023, nil},

		{"9223372036854775808", 0, errRange}, {"8E", 0, errRange}, {"9e18G", 0, errUnit}, {"99999999999999999999999999", 0, errRange},
		{"0", 0, errZero}, {"0G", 0, errZero}, {"0.0000000001K", 0, errZero}, {"-1", 0, errNegative}, {"-1G", 0, errNegative},
		{"", 0, errNumber}, {".", 0, errNumber}, {"M", 0, errNumber}, {"NaN", 0, errNumber}, {"inf", 0, errNumber}, {"+1", 0, errNumber},
		{" 1", 0, errNumber}, {"1.2.3M", 0, errNumber}, {"1.5", 0, errWhole}, {"1.5B", 0, errWhole}, {"1X", 0, errUnit},
		{"1KX", 0, errUnit}, {"1KiBB", 0, errUnit}, {"1 M", 0, errUnit}, {"1M ", 0, errUnit}, {"0x10", 0, errUnit}, {"1_000", 0, errUnit},
		{"1٣", 0, errUnit}, // a digit, but not one of ours
	} {
		got, err := ParseSize(c.in)
		if !errors.Is(err, c.err) || (err == nil && got != c.want) {
			t.Errorf("ParseSize(%q) = %d, %v; want %d, %v", c.in, got, err, c.want, c.err)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for _, c := range []struct {
		in   int64
		want string
	}{
		{0, "none"}, {1, "1"}, {1023, "1023"}, {1024, "1K"}, {1025, "1025"}, {512 << 20, "512M"},
		{3 << 29, "1536M"}, {1 << 30, "1G"}, {1 << 60, "1E"}, {math.MaxInt64, "9223372036854775807"},
	} {
		if got := FormatSize(c.in); got != c.want {
			t.Errorf("FormatSize(%d) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for _, c := range []struct {
		in   string
		want time.Duration
		err  error
	}{
		{"10s", 10 * time.Second, nil}, {"10S", 10 * time.Second, nil}, {"1.5m", 90 * time.Second, nil},
		{"100ms", 100 * time.Millisecond, nil}, {"1h", time.Hour, nil}, {"1h30m", 90 * time.Minute, nil}, {"30", 30 * time.Second, nil},
		{"0.5", 500 * time.Millisecond, nil}, {".5", 500 * time.Millisecond, nil}, {"5.", 5 * time.Second, nil},
		{"1ms", time.Millisecond, nil}, {"2562047h", 2562047 * time.Hour, nil},

		{"0", 0, errZero}, {"0s", 0, errZero}, {"0.0", 0, errZero}, {"-1s", 0, errNegative}, {"-0.5", 0, errNegative},
		{"10us", 0, errTooShort}, {"0.0000000000001", 0, errTooShort}, {"1ns", 0, errTooShort}, {"9999999999h", 0, errRange},
		{"99999999999999999999999", 0, errRange}, {"10x", 0, errUnit}, {"10d", 0, errUnit}, {"10 s", 0, errUnit}, {"", 0, errNumber},
		{"s", 0, errNumber}, {"+1s", 0, errNumber}, {"NaN", 0, errNumber}, {"inf", 0, errNumber}, {"..5", 0, errNumber},
		{"1.2.3", 0, errUnit}, {"1e3", 0, errUnit},
	} {
		got, err := ParseDuration(c.in)
		if !errors.Is(err, c.err) || (err == nil && got != c.want) {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v, %v", c.in, got, err, c.want, c.err)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for _, c := range []struct {
		in   time.Duration
		want string
	}{
		{0, "none"}, {30 * time.Second, "30s"}, {time.Hour, "3600s"}, {1500 * time.Millisecond, "1500ms"},
		{time.Second + time.Microsecond, "1.000001s"},
	} {
		if got := FormatDuration(c.in); got != c.want {
			t.Errorf("FormatDuration(%v) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestParseCount(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
		err  error
	}{
		{"1", 1, nil}, {"100", 100, nil}, {"101", 0, errRange}, {"99999999999999999999", 0, errRange},
		{"0", 0, errZero}, {"-1", 0, errNegative}, {"-99999999999999999999", 0, errNegative},
		{"1.5", 0, errWhole}, {"+1", 0, errNumber}, {"", 0, errNumber}, {"x", 0, errNumber},
		{"1e2", 0, errNumber}, {"0x10", 0, errNumber}, {"-", 0, errNumber},
	} {
		got, err := parseCount(c.in, 100)
		if !errors.Is(err, c.err) || (err == nil && got != c.want) {
			t.Errorf("parseCount(%q) = %d, %v; want %d, %v", c.in, got, err, c.want, c.err)
		}
	}
}

func TestParseBool(t *testing.T) {
	for in, want := range map[string]bool{"true": true, "1": true, "Yes": true, "on": true, "false": false, "0": false, "no": false, "OFF": false} {
		if got, err := parseBool(in); err != nil || got != want {
			t.Errorf("parseBool(%q) = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "2", "truee", " true"} {
		if _, err := parseBool(in); err == nil {
			t.Errorf("parseBool(%q) gives no error", in)
		}
	}
}

// What is accepted is above zero, and survives being written and read again.
func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"512M", "1.5G", "0", "-1", "8E", "1e9", "0.1k", "7.9999999999999999999E"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseSize(s)
		if err != nil {
			return
		}
		if n <= 0 {
			t.Fatalf("ParseSize(%q) = %d", s, n)
		}
		if again, err := ParseSize(FormatSize(n)); err != nil || again != n {
			t.Fatalf("%q is %d, written %q, read %d, %v", s, n, FormatSize(n), again, err)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"10s", "1.5m", "0.5", "100ms", "1h1m1s", "-1", "1ns", "9e9", "1.0000005s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			return
		}
		if d < time.Millisecond {
			t.Fatalf("ParseDuration(%q) = %v", s, d)
		}
		if again, err := ParseDuration(FormatDuration(d)); err != nil || again != d {
			t.Fatalf("%q is %v, written %q, read %v, %v", s, d, FormatDuration(d), again, err)
		}
	})
}
