package snapshot

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/linux"
)

const (
	layoutName = "oci-layout"
	indexName  = "index.json"
	blobsName  = "blobs"
	blobsDir   = "blobs/sha256"
	treesDir   = "trees"
	lockName   = ".lock"
	unfinished = ".unfinished-"
)

// Store keeps snapshots in a directory. Its methods may be called from any goroutine, and in any number of processes.
type Store struct {
	Limits Limits // of Add
	*folder
}

// folder is the directory of a store.
type folder struct {
	dir      *os.File
	path     string
	patience time.Duration            // for the lock
	hook     func(point string) error // of tests: before every change to a disk
	noMknod  bool                     // of tests: whiteouts are attributes
}

func (s *folder) at(point string) error {
	if s.hook == nil {
		return nil
	}
	return s.hook(point)
}

// Open opens a store, and makes it if need be. Nobody else may be able to write to it.
func Open(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	s := &Store{folder: &folder{dir: f, path: dir, patience: 30 * time.Second}}
	if err := s.prepare(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return s, nil
}

// prepare makes what each store has.
func (s *Store) prepare() error {
	var st unix.Stat_t
	if err := unix.Fstat(s.fd(), &st); err != nil {
		return failed("fstat", s.path, err)
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return hint.With(fmt.Errorf("%s: %w", s.path, errForeign), "keep snapshots in a directory of your own, or chmod 700 that")
	}
	for _, name := range []string{blobsName, blobsDir, treesDir} {
		if err := unix.Mkdirat(s.fd(), name, 0o700); err != nil && err != unix.EEXIST {
			return failed("mkdir", s.path+"/"+name, err)
		}
	}
	var found unix.Stat_t
	if unix.Fstatat(s.fd(), layoutName, &found, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return nil
	}
	unlock, err := s.lock(context.Background())
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := s.index(); err != nil {
		return err
	}
	return s.writeFile(layoutName, []byte(layoutFile))
}

// Close closes the store. What Trees gave stays open.
func (s *Store) Close() error { return s.dir.Close() }

func (s *folder) fd() int { return int(s.dir.Fd()) }

// lock holds the store for changes to what is in it. It goes with its holder. It is asked for again and again, since a
// call that waits would hear nothing of the end of ctx.
func (s *folder) lock(ctx context.Context) (unlock func(), err error) {
	fd, err := unix.Openat(s.fd(), lockName, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, failed("open", s.path+"/"+lockName, err)
	}
	began := time.Now()
	for {
		err = linux.Flock(fd, unix.LOCK_EX)
		if err == nil {
			return func() { _ = unix.Close(fd) }, nil
		}
		if err != unix.EWOULDBLOCK {
			err = failed("flock", s.path+"/"+lockName, err)
		} else if err = context.Cause(ctx); err == nil && time.Since(began) >= s.patience {
			err = ErrBusy
		}
		if err != nil {
			_ = unix.Close(fd)
			return nil, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// work is a directory of the store in which something is made that isn't there yet. Whoever makes it holds a
// lock on it; one without is swept.
type work struct {
	name string
	fd   int
}

func (s *folder) begin(ctx context.Context) (*work, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.sweep(); err != nil {
		return nil, err
	}
	w := &work{name: unfinished + rand.Text()}
	if err := s.at("begin"); err != nil {
		return nil, err
	}
	if err := unix.Mkdirat(s.fd(), w.name, 0o700); err != nil {
		return nil, failed("mkdir", s.path, err)
	}
	if w.fd, err = openDir(s.fd(), w.name); err != nil {
		return nil, failed("open", s.path+"/"+w.name, err)
	}
	if err := linux.Flock(w.fd, unix.LOCK_EX); err != nil {
		_ = unix.Close(w.fd)
		return nil, failed("flock", s.path+"/"+w.name, err)
	}
	return w, nil
}

// end removes what is still in it.
func (s *folder) end(w *work) {
	_ = linux.RemoveAll(s.fd(), w.name, 0)
	_ = unix.Close(w.fd)
}

// sweep removes what nobody needs: what was interrupted, and blobs and trees that are in no snapshot. Only the
// holder of the lock does.
func (s *folder) sweep() error {
	x, err := s.index()
	if err != nil {
		return err
	}
	needed, unknown := map[string]bool{}, false
	for _, d := range x.Manifests {
		id, _ := d.blob()
		needed[id] = true
		m, layers, err := s.manifest(id)
		if unknown = unknown || err != nil; err != nil {
			continue // nobody knows what a damaged one needs: what is whole stays, until that is removed
		}
		config, _ := m.Config.blob()
		needed[config] = true
		for _, l := range layers {
			needed[l] = true
		}
	}
	for _, where := range []string{".", blobsDir, treesDir} {
		if err := s.sweepIn(where, func(name string) bool {
			return strings.HasPrefix(name, unfinished) || !unknown && where != "." && ValidID(name) && !needed[name]
		}); err != nil {
			return failed("remove", s.path+"/"+where, err)
		}
	}
	return nil
}

func (s *folder) sweepIn(where string, unneeded func(name string) bool) error {
	dir, err := openDir(s.fd(), where)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	names, err := linux.Names(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if unneeded(name) {
			if err := s.drop(dir, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// drop removes a blob, or a directory that nobody holds.
func (s *folder) drop(dir int, name string) error {
	fd, err := openDir(dir, name)
	if err == nil {
		defer unix.Close(fd)
		if linux.Flock(fd, unix.LOCK_EX) != nil {
			return nil // of somebody at work, or of a sandbox; the next one removes it
		}
		// Under another name, so that half of it is found by nobody.
		if gone := unfinished + rand.Text(); !strings.HasPrefix(name, unfinished) {
			if err := s.at("drop"); err != nil {
				return err
			}
			if err := unix.Renameat(dir, name, dir, gone); err != nil {
				return err
			}
			name = gone
		}
	} else if err == unix.ENOENT {
		return nil
	}
	if err := s.at("remove"); err != nil {
		return err
	}
	return linux.RemoveAll(dir, name, 0)
}

// index is what is kept; what isn't there is empty.
func (s *folder) index() (*index, error) {
	text, err := readFile(s.fd(), indexName)
	if err == unix.ENOENT {
		return &index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{}}, nil
	}
	if err != nil {
		return nil, failed("read", s.path+"/"+indexName, err)
	}
	x, err := parseIndex(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	return x, nil
}

func (s *folder) setIndex(x *index) error {
	text, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return s.writeFile(indexName, text)
}

// writeFile replaces a file at once; it is on the disk when it returns.
func (s *folder) writeFile(name string, text []byte) error {
	temp := unfinished + name
	if err := s.at("write " + name); err != nil {
		return err
	}
	err := writeNew(s.fd(), temp, text)
	if err == nil {
		err = s.at("rename " + name)
	}
	if err == nil {
		err = unix.Renameat(s.fd(), temp, s.fd(), name)
	}
	if err == nil {
		err = unix.Fsync(s.fd())
	}
	return failed("write", s.path+"/"+name, err)
}

// writeNew writes a file to the disk.
func writeNew(dir int, name string, text []byte) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// blob reads a document of the store, and holds it against its name.
func (s *folder) blob(name string) ([]byte, error) {
	text, err := readFile(s.fd(), blobsDir+"/"+name)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, name, err)
	}
	if digestOf(text) != name {
		return nil, fmt.Errorf("%w: %s: the content has another digest", ErrDamaged, name)
	}
	return text, nil
}

func (s *folder) manifest(id string) (m *manifest, layers []string, err error) {
	text, err := s.blob(id)
	if err != nil {
		return nil, nil, err
	}
	return parseManifest(text)
}

// Get gives a snapshot; fs.ErrNotExist if there is none of that ID.
func (s *Store) Get(id string) (*Info, error) {
	x, err := s.index()
	if err != nil {
		return nil, err
	}
	names, ok := x.names(id)
	if !ok {
		return nil, fmt.Errorf("snapshot %.100q: %w", id, fs.ErrNotExist)
	}
	return s.info(id, names)
}

// Find gives the snapshot of a name or an ID.
func (s *Store) Find(name string) (*Info, error) {
	if ValidID(name) {
		return s.Get(name)
	}
	x, err := s.index()
	if err != nil {
		return nil, err
	}
	id := x.named(name)
	if name == "" || id == "" {
		return nil, fmt.Errorf("snapshot %.100q: %w", name, fs.ErrNotExist)
	}
	names, _ := x.names(id)
	return s.info(id, names)
}

// List gives all of them, the newest first.
func (s *Store) List() ([]Info, error) {
	x, err := s.index()
	if err != nil {
		return nil, err
	}
	all := []Info{}
	seen := map[string]bool{}
	for _, d := range x.Manifests {
		id, _ := d.blob()
		if seen[id] {
			continue
		}
		seen[id] = true
		names, _ := x.names(id)
		in, err := s.info(id, names)
		if err != nil {
			// It may have gone meanwhile.
			if again, err2 := s.index(); err2 == nil {
				if !again.has(id) {
					continue
				}
			}
			in = &Info{ID: id, Names: names, Err: err}
		}
		all = append(all, *in)
	}
	slices.SortStableFunc(all, func(a, b Info) int { return b.Created.Compare(a.Created) })
	return all, nil
}

func (s *folder) info(id string, names []string) (*Info, error) {
	text, err := s.blob(id)
	if err != nil {
		return nil, err
	}
	m, layers, err := parseManifest(text)
	if err != nil {
		return nil, err
	}
	name, _ := m.Config.blob()
	about, err := s.blob(name)
	if err != nil {
		return nil, err
	}
	c, created, err := parseConfig(about, m)
	if err != nil {
		return nil, err
	}
	in := &Info{ID: id, Names: names, Meta: c.Snapshot.Meta, Left: c.Snapshot.Left, Layers: layers, Size: int64(len(text) + len(about))}
	in.Created = created
	for _, l := range m.Layers {
		in.Size += l.Size
	}
	return in, nil
}

// names are those of an ID; ok: it is there, with or without.
func (x *index) names(id string) (names []string, ok bool) {
	for _, d := range x.Manifests {
		if d.Digest != algorithm+id {
			continue
		}
		ok = true
		if n := d.Annotations[refName]; n != "" {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names, ok
}

func (x *index) has(id string) bool {
	_, ok := x.names(id)
	return ok
}

// named is the ID of a name, or nothing.
func (x *index) named(name string) string {
	for _, d := range x.Manifests {
		if d.Annotations[refName] == name && name != "" {
			return strings.TrimPrefix(d.Digest, algorithm)
		}
	}
	return ""
}

// Name gives a snapshot a name, beside those that it has. One that is another's is ErrTaken.
func (s *Store) Name(name, id string) error {
	if !ValidName(name) {
		return fmt.Errorf("name %.100q: %w", name, errBadName)
	}
	return s.change(func(x *index) error {
		switch other := x.named(name); {
		case other == id && id != "":
			return nil
		case other != "":
			return fmt.Errorf("%s: %w", name, ErrTaken)
		}
		for i, d := range x.Manifests {
			if d.Digest != algorithm+id {
				continue
			}
			if d.Annotations[refName] == "" {
				x.Manifests[i].Annotations = map[string]string{refName: name}
			} else {
				d.Annotations = map[string]string{refName: name}
				x.Manifests = append(x.Manifests, d)
			}
			return nil
		}
		return fmt.Errorf("snapshot %.100q: %w", id, fs.ErrNotExist)
	})
}

// Remove removes a snapshot and its names, with the blobs and trees that no other needs. A tree that
// somebody holds goes later, with the next change.
func (s *Store) Remove(id string) error {
	return s.change(func(x *index) error {
		if !x.has(id) {
			return fmt.Errorf("snapshot %.100q: %w", id, fs.ErrNotExist)
		}
		x.Manifests = slices.DeleteFunc(x.Manifests, func(d descriptor) bool { return d.Digest == algorithm+id })
		return nil
	})
}

// change changes the index, and sweeps.
func (s *folder) change(do func(*index) error) error {
	unlock, err := s.lock(context.Background())
	if err != nil {
		return err
	}
	defer unlock()
	x, err := s.index()
	if err != nil {
		return err
	}
	if err := do(x); err != nil {
		return err
	}
	if err := s.setIndex(x); err != nil {
		return err
	}
	return s.sweep()
}

// commit adds the parts of a snapshot, which are in w under the names that they are to have, and then the snapshot.
// What else it needs has to be in the store.
func (s *folder) commit(ctx context.Context, w *work, top descriptor, blobs, trees, needs []string) error {
	if err := unix.Fsync(w.fd); err != nil {
		return failed("fsync", s.path, err)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	for to, names := range map[string][]string{blobsDir: blobs, treesDir: trees} {
		if err := s.move(w, to, names); err != nil {
			return failed("rename", s.path+"/"+to, err)
		}
	}
	for _, name := range needs {
		if err := unix.Faccessat(s.fd(), blobsDir+"/"+name, unix.F_OK, 0); err != nil {
			return fmt.Errorf("%w: %s is gone: what it is part of was removed meanwhile", ErrDamaged, name)
		}
	}
	x, err := s.index()
	if err != nil {
		return err
	}
	if id, _ := top.blob(); x.has(id) {
		return nil
	}
	x.Manifests = append(x.Manifests, top)
	return s.setIndex(x)
}

// move puts finished parts where they belong. What is there already is the same.
func (s *folder) move(w *work, to string, names []string) error {
	dir, err := openDir(s.fd(), to)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	for _, name := range names {
		from := name
		if to == treesDir {
			from = treeIn(name)
		}
		if err := s.at("move"); err != nil {
			return err
		}
		if err := unix.Renameat2(w.fd, from, dir, name, unix.RENAME_NOREPLACE); err != nil && err != unix.EEXIST {
			return err
		}
	}
	return unix.Fsync(dir)
}

// treeIn is the name of a layer's tree in a work directory.
func treeIn(layer string) string { return "tree-" + layer }

func openDir(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// openFile opens a regular file for reading, and nothing else.
func openFile(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.EINVAL
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// readFile reads a document.
func readFile(dir int, name string) ([]byte, error) {
	f, err := openFile(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = unix.EFBIG
	}
	return text, err
}

func failed(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}
