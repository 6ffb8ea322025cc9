package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/sockets"
)

// holder holds the sessions of one supervisor: the one that it was started for, and those that were forked from it or from its forks. Each
// has files, a socket, a lifetime and an end of its own; the supervisor stays as long as one of them stands, and with it end all. A
// fork needs the memory that its files are in, which can't be handed to another process.
type holder struct {
	parent string        // the directory of all sessions
	ended  chan struct{} // closed when none stands any more
	closed chan struct{} // closed when nobody answers any more

	mu       sync.Mutex
	over     bool
	listener net.Listener     // of all of them
	standing map[string]*info // by ID
	group    sync.WaitGroup
}

func newHolder(parent string) *holder {
	return &holder{parent: parent, ended: make(chan struct{}), closed: make(chan struct{}), standing: map[string]*info{}}
}

// opened makes a sandbox a session, before anybody else knows of it.
func (h *holder) opened(b *sandboxes.Sandbox) error {
	if err := checkName(b.Name); b.Name != "" && err != nil {
		return &config.UsageError{Msg: fmt.Sprintf("the name %q: it %v", b.Name, err)}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return backend.ErrClosed
	}
	if err := untaken(b.Name); err != nil {
		return err
	}
	i := &info{ID: b.ID, Name: b.Name, PID: os.Getpid(), Created: b.Created.UTC(), dir: filepath.Join(h.parent, b.ID)}
	lock, err := i.write()
	if err != nil {
		return err
	}
	if err := h.listen(i); err != nil {
		return errors.Join(err, lock.Close(), os.RemoveAll(i.dir))
	}
	h.standing[i.ID] = i
	h.group.Go(func() {
		<-b.Done()
		h.bury(i, b.Ended())
		_ = lock.Close()
	})
	return nil
}

// listen has a session reached by a socket in its directory: the first makes it, and to the others it is a further name of that.
func (h *holder) listen(i *info) (err error) {
	if h.listener == nil {
		h.listener, err = sockets.Listen("unix:"+i.socket(), false)
		return err
	}
	for _, other := range h.standing {
		return os.Link(other.socket(), i.socket())
	}
	return backend.ErrClosed
}

// bury writes down how a session ended. Of the last one, with which the supervisor ends, that is written when nobody answers any more.
func (h *holder) bury(i *info, end *sandboxes.End) {
	h.mu.Lock()
	delete(h.standing, i.ID)
	last := len(h.standing) == 0
	if last {
		h.over = true
		close(h.ended)
	}
	h.mu.Unlock()
	if last {
		<-h.closed
	}
	text, _ := json.Marshal(end) // plain data
	path := filepath.Join(i.dir, "ended")
	if os.WriteFile(path+".new", append(text, '\n'), 0o600) == nil {
		_ = os.Rename(path+".new", path) // whoever reads it reads all of it
	}
}

// untaken refuses the name of a session that stands.
func untaken(name string) error {
	if name == "" {
		return nil
	}
	if i, err := find(name); err == nil && i.Ended == nil {
		return &config.UsageError{Msg: fmt.Sprintf("there is a session %q already", name), Hint: "--name another, or confine session stop " + name + " first"}
	}
	return nil
}
