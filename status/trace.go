package status

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

// TraceID is the trace-id of traceparent, the caller's TRACEPARENT, so that the
// report can be joined to the trace that the caller is in. Without a valid one it
// is new and random.
//
// It has to be unique and not secret: the random numbers are the runtime's own,
// seeded by the kernel, which cost nothing at start-up.
func TraceID(traceparent string) string {
	if id := parseTraceparent(traceparent); id != "" {
		return id
	}
	var b [16]byte
	for isZero(b[:]) {
		binary.NativeEndian.PutUint64(b[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(b[8:], rand.Uint64())
	}
	return hex.EncodeToString(b[:])
}

// Offsets in version-traceid-parentid-flags, W3C Trace Context, section 3.2.
const (
	traceAt, traceEnd   = 3, 35
	parentAt, parentEnd = 36, 52
	flagsAt, flagsEnd   = 53, 55
)

// parseTraceparent gives the trace-id, or nothing when s is not valid. A later
// version may be longer, with another field after a dash.
func parseTraceparent(s string) string {
	if len(s) < flagsEnd || s[2] != '-' || s[traceEnd] != '-' || s[parentEnd] != '-' {
		return ""
	}
	version, trace, parent, flags := s[:2], s[traceAt:traceEnd], s[parentAt:parentEnd], s[flagsAt:flagsEnd]
	if !isLowerHex(version) || !isLowerHex(trace) || !isLowerHex(parent) || !isLowerHex(flags) {
		return ""
	}
	if version == "ff" || version == "00" && len(s) != flagsEnd || len(s) > flagsEnd && s[flagsEnd] != '-' {
		return ""
	}
	if allZeros(trace) || allZeros(parent) {
		return ""
	}
	return trace
}

// isLowerHex: capital letters are not valid in this header.
func isLowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func allZeros(s string) bool {
	for i := range len(s) {
		if s[i] != '0' {
			return false
		}
	}
	return true
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
