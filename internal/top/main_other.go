//go:build !linux

package top

import (
	"fmt"
	"os"
	"runtime"
)

// Main refuses: nothing here holds a sandbox yet.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "confine top: not supported yet on "+runtime.GOOS)
	return 125
}
