//go:build !linux

package session

import (
	"fmt"
	"os"
	"runtime"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
)

// Main refuses: nothing here holds a sandbox yet.
func Main([]string, func(*config.Policy) backend.Backend) int {
	fmt.Fprintln(os.Stderr, "confine session: not supported yet on "+runtime.GOOS)
	return 125
}
