//go:build !linux

package qemu

import (
	"fmt"
	"os"
)

// Main never returns.
func Main([]string) {
	fmt.Fprintln(os.Stderr, "keeper: machines are run on Linux")
	os.Exit(1)
}
