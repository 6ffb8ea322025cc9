package cli

import (
	"strconv"
	"time"

	"github.com/confine-run/confine/confine"
)

// duration, size and count word a limit; no limit is no word.

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return confine.FormatDuration(d)
}

func size(n int64) string {
	if n == 0 {
		return ""
	}
	return confine.FormatSize(n)
}

func count(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// roughSize words a size that was measured: "15.2M".
func roughSize(n int64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + "B"
	}
	f, i := float64(n)/(1<<10), 0
	for ; f >= 1<<10 && i < len(units)-1; i++ {
		f /= 1 << 10
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + units[i:i+1]
}

// share words part of a limit: " (15%)", or nothing when there is no limit.
func share(part, limit float64) string {
	if limit <= 0 {
		return ""
	}
	return " (" + strconv.FormatFloat(100*part/limit, 'f', 1, 64) + "%)"
}
