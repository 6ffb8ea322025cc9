package main

import (
	"errors"
	"os"
	"os/exec"

	"github.com/confine-run/confine/internal/attempts"
)

func main() {
	attempts.Main(os.Args[1:], worldWords, clientWords, streamWords, webWords, retryWords, leaveWords)
}

// ownCode ends us as the command ended that we ran.
func ownCode(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() >= 0 {
		os.Exit(exit.ExitCode())
	}
	return err
}
