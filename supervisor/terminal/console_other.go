//go:build !linux

package terminal

import "os"

// Terminal is the caller's, which no target has here.
type Terminal struct{}

// NewConsole is the console on f. It is taken for no terminal here: lines are
// printed, nothing is drawn.
func NewConsole(f *os.File) *Console {
	return newConsole(func(p []byte) { f.Write(p) })
}
