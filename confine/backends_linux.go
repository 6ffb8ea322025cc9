package confine

import (
	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/process"
)

// Init turns the process into the inside of a run, if that is what it was started as; then it doesn't return. A
// program that starts anything calls it first thing in main.
func Init() { process.Init() }

// backendFor is the one for an isolation. What has none is refused by the plan of processes, which says so.
func backendFor(*Policy) backend.Backend { return process.Backend{} }
