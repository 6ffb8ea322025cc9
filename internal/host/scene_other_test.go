//go:build !linux

package host

func playScene() {}
