package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/confine-run/confine/internal/config"
)

// DefaultSocket is where a server listens, and a client looks, when nobody says where.
func DefaultSocket() (string, error) {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) {
		return "", &config.UsageError{Msg: "there is no XDG_RUNTIME_DIR for a socket", Hint: "name one: --listen unix:PATH"}
	}
	return filepath.Join(dir, "confine", "serve.sock"), nil
}

// Listen opens "unix:PATH" or "HOST:PORT". A socket that nobody answers on any more is replaced. What is shared are users beside
// the caller that may connect to a socket.
func Listen(address string, shared bool) (net.Listener, error) {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, &config.UsageError{Msg: err.Error(), Hint: "it takes unix:PATH or HOST:PORT", Err: err}
		}
		return l, nil
	}
	if !filepath.IsAbs(path) {
		return nil, &config.UsageError{Msg: fmt.Sprintf("the socket %q has no absolute path", path)}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	mode := os.FileMode(0o600)
	if shared {
		mode = 0o666
	}
	l, err := listenUnix(path, mode)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err := removeStale(path); err != nil {
			return nil, err
		}
		l, err = listenUnix(path, mode)
	}
	return l, err
}

// removeStale removes a socket that nobody listens on.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return &config.UsageError{Msg: path + " is there, and is no socket"}
	}
	c, err := dialUnix(context.Background(), path)
	if err == nil {
		_ = c.Close()
		return &config.UsageError{Msg: "a server answers on " + path + " already"}
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
