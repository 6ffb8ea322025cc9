//go:build !linux

package keeper

import (
	"fmt"
	"os"
)

// Main never returns.
func Main([]string) {
	fmt.Fprintln(os.Stderr, "keeper: machines are run on Linux")
	os.Exit(1)
}
