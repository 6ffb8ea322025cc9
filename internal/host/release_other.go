//go:build !linux && !windows

package host

func unameRelease() string { return "" }
