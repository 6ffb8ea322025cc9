//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: confine confines on Linux only, so there is nothing to measure here")
	os.Exit(1)
}
