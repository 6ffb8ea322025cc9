package tree

import "bytes"

// rollup is what is taken from /proc/PID/smaps_rollup, in bytes.
type rollup struct {
	pss   int64 // swap included: swapped memory still is the target's
	shmem int64 // the part of pss that is shared memory, and in no case less
}

// parseRollup reads a smaps_rollup. Before Linux 5.3 it doesn't tell shared
// memory apart; then all that isn't swapped may be that.
func parseRollup(text []byte) (r rollup, ok bool) {
	var swap int64
	found, split := false, false
	for len(text) > 0 {
		line := text
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			line, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
		colon := max(bytes.IndexByte(line, ':'), 0)
		to := (*int64)(nil)
		switch string(line[:colon]) {
		case "Pss":
			to, found = &r.pss, true
		case "Pss_Shmem":
			to, split = &r.shmem, true
		case "SwapPss":
			to = &swap
		default:
			continue
		}
		if *to, ok = kilobytes(line[colon+1:]); !ok {
			return rollup{}, false
		}
	}
	if !found {
		return rollup{}, false
	}
	if !split || r.shmem > r.pss {
		r.shmem = r.pss
	}
	r.pss += swap
	return r, true
}

// kilobytes reads "  12 kB" as bytes.
func kilobytes(text []byte) (int64, bool) {
	if !bytes.HasSuffix(text, []byte(" kB")) {
		return 0, false
	}
	kb, ok := parseInt(bytes.Trim(text[:len(text)-3], " "))
	return kb << 10, ok && kb >= 0
}
