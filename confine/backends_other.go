//go:build !linux

package confine

import (
	"runtime"

	"github.com/confine-run/confine/backend"
)

// Init does nothing here.
func Init() {}

func backendFor(*Policy) backend.Backend { return backend.None{System: runtime.GOOS} }
