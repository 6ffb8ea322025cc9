package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// defaultRoot has the states of containers where --root says nothing.
const defaultRoot = "/run/confine-oci"

// directory is that of one container, open, so that it is the same all the time.
type directory struct {
	id   string
	root *os.Root
	lock *os.File
	dir  *os.File
}

var ids = regexp.MustCompile(`^[A-Za-z0-9_+-][A-Za-z0-9_+.-]{0,254}$`)

func checkID(id string) error {
	if !ids.MatchString(id) {
		return fmt.Errorf("%q is no ID of a container: it takes letters, digits and any of \"_+-.\"", id)
	}
	return nil
}

// openRoot opens the directory that has all of them, which is nobody else's.
func openRoot(path string) (*os.Root, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	r, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	info, err := r.Stat(".")
	if err == nil {
		err = ours(path, info)
	}
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// ours refuses what somebody else may have written to.
func ours(name string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: mode %v: others than uid %d can write there", name, info.Mode(), os.Geteuid())
	}
	return nil
}

// newDirectory makes that of a container.
func newDirectory(root, id string) (*directory, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	all, err := openRoot(root)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	if err := all.Mkdir(id, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("container with id exists: %s", id)
		}
		return nil, err
	}
	return openIn(all, id)
}

// errNone is as engines know it.
func errNone(id string) error { return fmt.Errorf("container %q does not exist", id) }

// openDirectory opens that of a container which is there.
func openDirectory(root, id string) (*directory, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	all, err := openRoot(root)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	return openIn(all, id)
}

func openIn(all *os.Root, id string) (*directory, error) {
	info, err := all.Lstat(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNone(id)
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", id)
	}
	if err == nil {
		err = ours(id, info)
	}
	if err != nil {
		return nil, err
	}
	root, err := all.OpenRoot(id)
	if err != nil {
		return nil, err
	}
	d := &directory{id: id, root: root}
	if d.dir, err = root.Open("."); err == nil {
		d.lock, err = root.OpenFile("lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *directory) close() {
	_ = d.root.Close()
	if d.dir != nil {
		_ = d.dir.Close()
	}
	if d.lock != nil {
		_ = d.lock.Close()
	}
}

// alive says whether the container has a supervisor.
func (d *directory) alive() bool {
	err := unix.Flock(int(d.lock.Fd()), unix.LOCK_SH|unix.LOCK_NB) // others may look at the same time
	if err == nil {
		_ = unix.Flock(int(d.lock.Fd()), unix.LOCK_UN)
	}
	return err != nil
}

// gone waits until it has none.
func (d *directory) gone(patience time.Duration) bool {
	for end := time.Now().Add(patience); d.alive(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// record is what is known of a container, as its supervisor has written it.
type record struct {
	ID          string            `json:"id"`
	PID         int               `json:"pid"`
	Bundle      string            `json:"bundle"`
	Created     time.Time         `json:"created"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Notes       []string          `json:"notes,omitempty"`
}

const recordName = "record.json"

func (d *directory) write(r *record) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = d.writeFile(recordName+".new", text)
	}
	if err == nil {
		err = d.root.Rename(recordName+".new", recordName)
	}
	return err
}

func (d *directory) writeFile(name string, text []byte) error {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// maxRecord bounds what is read of one.
const maxRecord = 2 * maxConfig

func (d *directory) read() (*record, error) {
	f, err := d.root.OpenFile(recordName, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = ours(recordName, info)
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return nil, err
	}
	r := &record{}
	if err := decode(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", recordName, err)
	}
	if r.ID != d.id {
		return nil, fmt.Errorf("%s is that of %q", recordName, r.ID)
	}
	return r, nil
}

// state is what the specification calls so.
func (d *directory) state() (*specs.State, error) {
	s := &specs.State{Version: specs.Version, ID: d.id, Status: specs.StateStopped}
	r, err := d.read()
	switch {
	case errors.Is(err, fs.ErrNotExist) && d.alive():
		s.Status = specs.StateCreating
		return s, nil
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return nil, err
	}
	s.Bundle, s.Annotations = r.Bundle, r.Annotations
	if !d.alive() {
		return s, nil
	}
	a, err := d.ask(&order{Op: opState})
	if err != nil {
		if d.gone(time.Second) {
			return s, nil
		}
		return nil, err
	}
	s.Status, s.Pid = a.Status, r.PID
	return s, nil
}

// remove takes the state of a container away that has stopped; force stops it.
func (d *directory) remove(root string, force bool) error {
	if d.alive() {
		if !force {
			return fmt.Errorf("container %s is not stopped: %w", d.id, errRunning)
		}
		if err := d.end(); err != nil {
			return err
		}
	}
	all, err := openRoot(root)
	if err != nil {
		return err
	}
	defer all.Close()
	return all.RemoveAll(d.id)
}

var errRunning = errors.New("delete --force stops it")

// patience is how long a supervisor may take to answer, and to end.
const patience = 10 * time.Second

// end ends the supervisor, and all of the container with it.
func (d *directory) end() error {
	_, err := d.ask(&order{Op: opKill, Signal: int(unix.SIGKILL), All: true})
	if err == nil && d.gone(patience) {
		return nil
	}
	if !d.alive() {
		return nil
	}
	// Who holds the lock lives, so that the number is nobody else's.
	r, err := d.read()
	if err != nil {
		return err
	}
	if r.PID < 2 {
		return fmt.Errorf("%s has no pid", recordName)
	}
	if err := unix.Kill(r.PID, unix.SIGKILL); err != nil {
		return err
	}
	if !d.gone(patience) {
		return fmt.Errorf("container %s: its supervisor %d doesn't end", d.id, r.PID)
	}
	return nil
}

// list are the containers that there are.
func list(root string) ([]specs.State, error) {
	all, err := openRoot(root)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	entries, err := fs.ReadDir(all.FS(), ".")
	if err != nil {
		return nil, err
	}
	states := []specs.State{}
	for _, e := range entries {
		if checkID(e.Name()) != nil || !e.IsDir() {
			continue
		}
		d, err := openIn(all, e.Name())
		if err != nil {
			continue
		}
		if s, err := d.state(); err == nil {
			states = append(states, *s)
		}
		d.close()
	}
	return states, nil
}

// controlPath is the name of a container's socket, short however long the way to it is.
func (d *directory) controlPath() string {
	return filepath.Join("/proc/self/fd", fmt.Sprint(d.dir.Fd()), "control")
}
