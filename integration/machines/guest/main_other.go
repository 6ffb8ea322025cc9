//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "guest: this is for the inside of a Linux machine")
	os.Exit(1)
}
