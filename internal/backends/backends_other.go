//go:build !linux && !windows && !darwin

package backends

import (
	"runtime"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
)

// Init does nothing here.
func Init() {}

// For is one that refuses everything.
func For(*config.Policy) backend.Backend { return backend.None{System: runtime.GOOS} }

// Doctor says what this host can do.
func Doctor() []host.Result { return host.RunDoctor() }

// Clean is nil: no run leaves anything.
func Clean() func() (int, error) { return nil }
