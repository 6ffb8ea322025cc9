package learn

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/quote"
)

// Head room over what one run used, and the least that a limit is.
const (
	moreTime, more = 3, 2

	leastWall        = 10 * time.Second
	leastCPU         = 2 * time.Second
	leastMemory      = 64 << 20
	leastTasks       = 16
	leastDescriptors = 128
	leastDisk        = 64 << 20
	// What strict gives by itself.
	strictOutput  = 1 << 20
	strictPercent = 50
)

// limits are lines for what the run used.
func (s *Seen) limits() (lines []Line) {
	add := func(key, value, format string, args ...any) {
		lines = append(lines, Line{Key: key, Value: value, Why: fmt.Sprintf(format, args...)})
	}
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	used := time.Duration(s.Usage.CPUMS) * time.Millisecond
	add("time_limit", timeLimit(s.Wall, leastWall), "took %s", shortTime(s.Wall))
	add("cpu_time", timeLimit(used, leastCPU), "used %s", shortTime(used))
	add("memory_limit", sizeLimit(s.Usage.MemoryPeakBytes, leastMemory), "used %s", shortSize(s.Usage.MemoryPeakBytes))
	add("processes", count(powers(max(s.Usage.TasksPeak*more, leastTasks), leastTasks)), "%s at one time", plural(max(s.Usage.TasksPeak, 1), "task"))
	if s.Descriptors > 0 {
		add("file_descriptors", count(max(s.Descriptors*more, leastDescriptors)), "the largest table of one process had room for %d", s.Descriptors)
	}
	add("disk_limit", sizeLimit(s.Written, leastDisk), "left %s", shortSize(s.Written))
	if s.Output*more > strictOutput {
		add("output_limit", sizeLimit(s.Output, strictOutput), "printed %s", shortSize(s.Output))
	}
	// A rate below what was used would change the time that it takes.
	if rate := 100 * used.Seconds() / max(s.Wall.Seconds(), 0.01); rate*5/4 > strictPercent {
		percent := int64(math.Ceil(rate*5/4/25)) * 25
		add("cpu_limit", count(percent), "used %.0f %% of one core", rate)
		if percent > 100 {
			add("cpus", count((percent+99)/100), "used %.1f of them", rate/100)
		}
	}
	return lines
}

// fileSize is the limit on one file: none was larger than all that was written.
func (s *Seen) fileSize() Line {
	return Line{Key: "max_file_size", Value: sizeLimit(s.Written, leastDisk), Why: "of one file; all together had " + shortSize(s.Written)}
}

// timeLimit leaves head room over a time, in TOML.
func timeLimit(d, least time.Duration) string {
	return quote.TOML(timeWord(roundTime(max(d*moreTime, least))))
}

// sizeLimit leaves head room over a size, in TOML.
func sizeLimit(n, least int64) string {
	return quote.TOML(quote.Size(powers(max(n*more, least), 1<<20)))
}

// roundTime gives 1, 2, 3, 5, 10, 15, 20, 30 or 45 seconds, minutes or hours, or whole days.
func roundTime(d time.Duration) time.Duration {
	for _, unit := range [...]time.Duration{time.Second, time.Minute, time.Hour} {
		for _, n := range [...]time.Duration{1, 2, 3, 5, 10, 15, 20, 30, 45} {
			if d <= n*unit {
				return n * unit
			}
		}
	}
	const day = 24 * time.Hour
	return (d + day - 1) / day * day
}

// powers gives the least times a power of two, or one and a half of one.
func powers(n, least int64) int64 {
	for scale := least; scale < 1<<60; scale *= 2 {
		switch {
		case n <= scale:
			return scale
		case n <= scale*3/2:
			return scale * 3 / 2
		}
	}
	return n
}

// timeWord is a duration without units that are 0: "2h", not "2h0m0s".
func timeWord(d time.Duration) string {
	word := d.String()
	if rest, ok := strings.CutSuffix(word, "m0s"); ok {
		word = rest + "m"
	}
	if rest, ok := strings.CutSuffix(word, "h0m"); ok {
		word = rest + "h"
	}
	return word
}

func shortTime(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "less than 1ms"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + "s"
	case d < 10*time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	}
	return d.Round(time.Second).String()
}

func shortSize(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " bytes"
	case n < 1<<20:
		return fmt.Sprintf("%.1fK", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1fM", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1fG", float64(n)/(1<<30))
}

func plural(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return strconv.FormatInt(n, 10) + " " + word + "s"
}
