package sockets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/confine-run/confine/internal/config"
)

// Dir is the directory of a user's sockets, which nobody else can look into: $XDG_RUNTIME_DIR/confine, or one of that user's own in
// the directory of temporary files. [Own] makes it.
func Dir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "confine")
	}
	return filepath.Join(os.TempDir(), "confine-"+strconv.Itoa(os.Geteuid()))
}

// Own makes a directory, and refuses one that somebody else has or can look into.
func Own(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	i, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !i.IsDir() || !isOwn(i) {
		return &config.UsageError{Msg: fmt.Sprintf("%q is not a directory of your own that nobody else can open", dir), Hint: "remove it, or set XDG_RUNTIME_DIR"}
	}
	return nil
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

// killedPatience is how long a server's children, which die with it, may keep its socket: those that have not executed anything yet.
const killedPatience = 2 * time.Second

// removeStale removes a socket that nobody listens on.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return &config.UsageError{Msg: path + " is there, and is no socket"}
	}
	c, err := Dial(context.Background(), path)
	for end := time.Now().Add(killedPatience); err == nil; c, err = Dial(context.Background(), path) {
		ended := listenerEnded(c)
		_ = c.Close()
		if !ended || time.Now().After(end) {
			return &config.UsageError{Msg: "a server answers on " + path + " already"}
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
