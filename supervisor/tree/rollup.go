package tree

import "bytes"

// parseRollup reads /proc/PID/smaps_rollup: the proportional set size and its
// share of swap, in bytes. Swapped memory still is the target's, so it counts.
func parseRollup(text []byte) (int64, bool) {
	var sum int64
	found := false
	for len(text) > 0 {
		line := text
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			line, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
		pss := bytes.HasPrefix(line, []byte("Pss:"))
		if !pss && !bytes.HasPrefix(line, []byte("SwapPss:")) {
			continue
		}
		line = line[bytes.IndexByte(line, ':')+1:]
		if !bytes.HasSuffix(line, []byte(" kB")) {
			return 0, false
		}
		kb, ok := parseInt(bytes.Trim(line[:len(line)-3], " "))
		if !ok || kb < 0 {
			return 0, false
		}
		sum += kb << 10
		found = found || pss
	}
	if !found {
		return 0, false
	}
	return sum, true
}
