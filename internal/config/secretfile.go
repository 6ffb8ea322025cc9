package config

import (
	"fmt"
	"io"
	"os"
	"runtime"
)

// maxSecret is the most that a file of tokens or credentials holds, in bytes.
const maxSecret = 1 << 20

// ReadSecret reads a file of tokens or credentials that an option names. It refuses one that every user of the host may read or write:
// whoever reads a token is its owner. On Windows the mode says nothing of that, and is not looked at.
func ReadSecret(option, path string) ([]byte, error) {
	refused := func(err error) error {
		return &UsageError{Msg: option + ": " + err.Error(), Err: err}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, refused(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, refused(err)
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o006 != 0 && runtime.GOOS != "windows" {
		return nil, &UsageError{Msg: fmt.Sprintf("%s: others can read or write %q (mode %#o)", option, path, mode.Perm()), Hint: "chmod 600 it, and make new tokens if others use this host"}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, refused(err)
	}
	if len(text) > maxSecret {
		return nil, &UsageError{Msg: fmt.Sprintf("%s: %q is longer than %d bytes", option, path, maxSecret)}
	}
	return text, nil
}
