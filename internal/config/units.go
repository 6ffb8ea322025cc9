package config

import (
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/quote"
)

// What each kind of value looks like, for messages.
const (
	sizeForms = `"512M", "512MiB", "1.5G" or a number of bytes (1024-based)`
	boolForms = `"true" or "false"`
)

// forms are those of limits.
var forms = [...]string{
	KindSize:     sizeForms + `, or "none"`,
	KindDuration: `"10s", "1.5m", "100ms" or a number of seconds, or "none"`,
	KindCount:    `a whole number above 0, or "none"`,
	KindPercent:  `"50" or "50%" of one core, or "none"`,
}

var (
	errZero     = errors.New("is zero")
	errNegative = errors.New("is negative")
	errRange    = errors.New("is too large")
	errTooShort = errors.New("is shorter than a millisecond")
	errNumber   = errors.New("is not a number")
	errUnit     = errors.New("has an unknown unit")
	errWhole    = errors.New("is not a whole number")
)

// ParseSize reads a size in bytes: "512M", "512MiB", "1.5G", "4096". Units are
// 1024-based and in either case.
//
// It counts in integers. docker/go-units goes through a float and lets it wrap:
// "9e18G" comes out negative there, and sizes above 2^53 lose their last digits.
func ParseSize(s string) (int64, error) {
	digits := len(s)
	if i := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' }); i >= 0 {
		digits = i
	}
	if strings.HasPrefix(s, "-") {
		return 0, errNegative
	}
	whole, frac, point := strings.Cut(s[:digits], ".")
	if digits == 0 || (whole == "" && frac == "") || strings.Contains(frac, ".") {
		return 0, errNumber
	}
	shift, ok := sizeShift(s[digits:])
	if !ok {
		return 0, errUnit
	}
	if point && shift == 0 {
		return 0, errWhole
	}
	n, err := wholeAndFraction(whole, frac, shift)
	if err == nil && n == 0 {
		err = errZero
	}
	return n, err
}

func sizeShift(unit string) (uint, bool) {
	unit = strings.ToLower(unit)
	if unit == "" || unit == "b" {
		return 0, true
	}
	i := strings.IndexByte("kmgtpe", unit[0])
	if rest := unit[1:]; i < 0 || (rest != "" && rest != "b" && rest != "ib") {
		return 0, false
	}
	return uint(i+1) * 10, true
}

func wholeAndFraction(whole, frac string, shift uint) (int64, error) {
	n, err := digitsOnly(whole)
	if err != nil || n > math.MaxInt64>>shift {
		return 0, errRange
	}
	const most = 18 // more decimals than any unit has bits for
	frac = frac[:min(len(frac), most)]
	f, _ := digitsOnly(frac) // 18 digits fit
	scale := uint64(1)
	for range frac {
		scale *= 10
	}
	hi, lo := bits.Mul64(f, 1<<shift)
	part, _ := bits.Div64(hi, lo, scale) // f < scale, so it is below 1<<shift
	return int64(n<<shift + part), nil
}

func digitsOnly(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	return strconv.ParseUint(s, 10, 63)
}

// FormatSize is the shortest form that ParseSize reads back to the same number.
func FormatSize(n int64) string { return quote.Size(n) }

// ParseDuration reads "10s", "1.5m", "100ms", "1h30m" or a bare number of seconds.
func ParseDuration(s string) (time.Duration, error) {
	d, err := parseDuration(s)
	if err == nil && d == 0 {
		return 0, errZero
	}
	return d, err
}

func parseDuration(s string) (time.Duration, error) {
	if strings.HasPrefix(s, "-") {
		return 0, errNegative
	}
	if s == "" || !strings.ContainsRune("0123456789.", rune(s[0])) {
		return 0, errNumber
	}
	text := strings.ToLower(s)
	if last := text[len(text)-1]; last == '.' || '0' <= last && last <= '9' {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil && plainNumber(strings.TrimRight(text, "nuµmsh")):
		return 0, errRange // its only other complaint about a number and a unit
	case err != nil && startsWithNumber(text):
		return 0, errUnit
	case err != nil:
		return 0, errNumber
	case d == 0 && strings.ContainsAny(text, "123456789"):
		return 0, errTooShort
	case d != 0 && d < time.Millisecond:
		return 0, errTooShort
	}
	return d, nil
}

// startsWithNumber says whether what is wrong can only come after a number.
func startsWithNumber(s string) bool {
	s = strings.TrimPrefix(s, ".")
	return s != "" && '0' <= s[0] && s[0] <= '9'
}

// plainNumber says whether s is digits with at most one point.
func plainNumber(s string) bool {
	s = strings.Replace(s, ".", "", 1)
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// FormatDuration is a form that ParseDuration reads back to the same duration.
func FormatDuration(d time.Duration) string {
	switch {
	case d == 0:
		return "none"
	case d%time.Second == 0:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	case d%time.Millisecond == 0:
		return strconv.FormatInt(int64(d/time.Millisecond), 10) + "ms"
	}
	return d.String()
}

// parseCount reads a whole number from 1 to most.
func parseCount(s string, most int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) && !strings.HasPrefix(s, "-"):
		return 0, errRange
	case strings.HasPrefix(s, "-") && plainNumber(s[1:]):
		return 0, errNegative
	case plainNumber(s) && strings.Contains(s, "."):
		return 0, errWhole
	case err != nil || s[0] == '+':
		return 0, errNumber
	case n == 0:
		return 0, errZero
	case n > most:
		return 0, errRange
	}
	return n, nil
}

func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "1", "yes", "on":
		return true, nil
	case "false", "0", "no", "off":
		return false, nil
	}
	return false, errors.New("is neither true nor false")
}
