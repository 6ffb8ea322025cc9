//go:build !linux

package oci

import (
	"fmt"
	"os"
	"runtime"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
)

// Main refuses: containers are Linux's.
func Main([]string, func(*config.Policy) backend.Backend) int {
	fmt.Fprintln(os.Stderr, "confine oci: there are no containers of this kind on "+runtime.GOOS)
	return 125
}
