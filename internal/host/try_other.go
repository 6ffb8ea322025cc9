//go:build !linux

package host

import "runtime"

// ProbeWord is the first argument of the throw-away process, of which there is
// none here.
const ProbeWord = "__probe"

// IsProbe is false: nothing is tried here.
func IsProbe() bool { return false }

// ProbeMain returns at once.
func ProbeMain() {}

// tryAll answers no to everything: not one of the mechanisms is there.
func tryAll(*Facts) (rs []Result) {
	for _, e := range table {
		rs = append(rs, e.result(No, "not on "+runtime.GOOS))
	}
	return rs
}
