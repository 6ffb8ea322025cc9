//go:build unix

package embedded

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/jobs"
)

// Word is how this program is told to be the process in the background.
const Word = "__embedded"

// idle is how long that stays when there is nothing to do, and nobody is connected.
const idle = 60 * time.Second

// address is what the process says of itself, in a file.
type address struct {
	URL string `json:"url"`
}

// Dir is where all of it is: $XDG_STATE_HOME/confine/jobs, the user's alone.
func Dir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "confine", "jobs"), nil
}

// own makes the directory, and refuses one that others could have written to.
func own(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return hint.New(fmt.Sprintf("%q is not this user's alone", dir), "remove it, or name another by XDG_STATE_HOME")
	}
	return os.Chmod(dir, 0o700)
}

// Connect gives how the process in the background is reached, and starts it where there is none.
func Connect(ctx context.Context) (jobs.Options, error) {
	dir, err := Dir()
	if err == nil {
		err = own(dir)
	}
	if err != nil {
		return jobs.Options{}, err
	}
	var started chan error
	for {
		if o, ok := running(dir); ok {
			return o, nil
		}
		if started == nil {
			if started, err = launch(dir); err != nil {
				return jobs.Options{}, err
			}
		}
		select {
		case err := <-started: // another one was faster, mostly
			started = nil
			if err != nil {
				return jobs.Options{}, hint.With(fmt.Errorf("the process in the background ended: %w", err), "it says why in "+filepath.Join(dir, "log"))
			}
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return jobs.Options{}, ctx.Err()
		}
	}
}

// Find gives how the process in the background is reached, if there is one.
func Find() (o jobs.Options, ok bool, err error) {
	dir, err := Dir()
	if err == nil {
		o, ok = running(dir)
	}
	return o, ok, err
}

// running says how to reach the process, if there is one: it holds a lock as long as it serves.
func running(dir string) (o jobs.Options, ok bool) {
	lock, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return o, false
	}
	defer lock.Close()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return o, false // nobody holds it
	}
	text, err := os.ReadFile(filepath.Join(dir, "server"))
	var a address
	if err != nil || json.Unmarshal(text, &a) != nil || a.URL == "" {
		return o, false
	}
	return jobs.Options{URL: a.URL, TokenFile: filepath.Join(dir, "token")}, true
}

// launch starts the process. The channel says when that has ended.
func launch(dir string) (chan error, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(self, "worker", Word)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended, nil
}

// Serve is the process: a server, and the worker that work is, until ctx ends or there is nothing to do: no job, and nothing that the worker holds. Where another one
// serves, it does nothing.
func Serve(ctx context.Context, holds func() bool, work func(ctx context.Context, o jobs.Options, dir string) error) error {
	dir, err := Dir()
	if err == nil {
		err = own(dir)
	}
	if err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil
		}
		return &os.PathError{Op: "flock", Path: lock.Name(), Err: err}
	}
	// What the one before has said of itself isn't true any more.
	if err := os.Remove(filepath.Join(dir, "server")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var token [24]byte
	_, _ = rand.Read(token[:])
	s, err := start(filepath.Join(dir, "store"), hex.EncodeToString(token[:]))
	if err != nil {
		return err
	}
	defer func() {
		s.Shutdown()
		s.WaitForShutdown()
	}()
	text, err := json.Marshal(address{s.ClientURL()})
	if err == nil {
		err = write(filepath.Join(dir, "token"), []byte(hex.EncodeToString(token[:])+"\n"))
	}
	if err == nil {
		err = write(filepath.Join(dir, "server"), text)
	}
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() {
		defer end()
		waitIdle(ctx, s, holds)
	}()
	return work(ctx, jobs.Options{URL: s.ClientURL(), TokenFile: filepath.Join(dir, "token")}, dir)
}

func start(store, token string) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{
		ServerName: "confine-embedded", Host: "127.0.0.1", Port: server.RANDOM_PORT, Authorization: token, JetStream: true, StoreDir: store,
		JetStreamMaxStore: 2 * jobs.Store, JetStreamMaxMemory: 64 << 20, SyncInterval: time.Second, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return nil, err
	}
	go s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		s.Shutdown()
		return nil, errors.New("the server inside was not ready within 20 seconds")
	}
	return s, nil
}

// waitIdle waits until nobody but the worker has been connected for some time, and neither a job nor anything that the worker holds was there.
func waitIdle(ctx context.Context, s *server.Server, holds func() bool) {
	const worker = 1 // connections of its own
	last := time.Now()
	for t := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		if s.NumClients() > worker || holds() || waiting(s) {
			last = time.Now()
		}
		if time.Since(last) > idle {
			t.Stop()
			return
		}
	}
}

// waiting says whether there are jobs.
func waiting(s *server.Server) bool {
	info, err := s.Jsz(&server.JSzOptions{Streams: true, Accounts: true})
	if err != nil {
		return true
	}
	for _, a := range info.AccountDetails {
		for _, stream := range a.Streams {
			if stream.Name == jobs.QueueStream && stream.State.Msgs > 0 {
				return true
			}
		}
	}
	return false
}

// write makes a file that is there as a whole or not at all.
func write(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
