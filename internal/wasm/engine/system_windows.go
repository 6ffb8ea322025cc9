package engine

import (
	"errors"
	"os"
)

const nonblock = 0

var signalsOfLimits = []os.Signal{}

// reserve: what is not touched takes no page.
func reserve(size uint64) ([]byte, error) { return make([]byte, size), nil }

func setAppend(*os.File, bool) error { return errors.ErrUnsupported }

// inodeIn: it isn't told there.
func inodeIn(*os.File, string) uint64 { return 0 }

func rename(in *os.Root, from, to string) error { return in.Rename(from, to) }

func writeAt(f *os.File, b []byte, at int64) (int, error) { return f.WriteAt(b, at) }
