//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "soak: confine confines on Linux only, so there is nothing to soak here")
	os.Exit(1)
}
