package layers

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/snapshot"
	"github.com/confine-run/confine/supervisor"
)

// Ground is what a sandbox stands on. nil is none.
type Ground struct {
	below *Ground
	from  *Store // of what is on a disk
	trees []snapshot.Tree
	Info  *snapshot.Info // of that

	places []handoff.Upper   // of what is in memory, without those that nothing was written to
	modes  map[string]uint32 // of the tops of all of them

	used Used // by that
	deep int  // layers, with those below

	mu     sync.Mutex
	refs   int               // guarded by mu
	mounts []int             // with what is in memory below, each for one box; guarded by mu
	ids    map[string]string // of the snapshots that end with it, by the path of the store; guarded by mu
}

// Used is what files in memory hold.
type Used struct {
	Bytes, Files int64
	Sized        map[string]int64 // bytes, in places of a size of their own
}

// deepest is how many layers there can be. The kernel takes 500, and each is asked for each name that isn't there.
const deepest = 128

// ErrDeep: there are too many layers.
var ErrDeep = hint.New("it stands on too many layers, of forks and snapshots that were made one of the other", "begin with a new sandbox, or an earlier snapshot")

// spare is how many mounts are kept for others. A sandbox that is built uses one up, and hands out another.
const spare = 4

// OnDisk is the ground of a snapshot. below, which may be nil, is what its layers lie on.
func OnDisk(ctx context.Context, st *Store, id string, below *Ground) (*Ground, error) {
	info, err := st.s.Get(id)
	if err != nil {
		return nil, err
	}
	trees, err := st.s.Trees(ctx, id)
	if err != nil {
		return nil, err
	}
	g := &Ground{below: below.Hold(), from: st.Hold(), trees: trees, Info: info, refs: 1, deep: below.depth() + len(trees), ids: map[string]string{}}
	if below == nil {
		g.ids[st.path] = id
	}
	if g.deep > deepest {
		g.Drop()
		return nil, ErrDeep
	}
	return g, nil
}

// Over is the ground that the files of a sandbox in memory make, with what that stood on. The mounts are its own then.
func (g *Ground) Over(l *supervisor.Layer) (*Ground, error) {
	o := &Ground{below: g.Hold(), places: l.Places, refs: 1, deep: g.depth() + 1, mounts: l.Own, ids: map[string]string{}}
	err := error(unix.ESRCH)
	if len(l.Own) > 0 {
		err = o.measure(l)
	}
	if err == nil {
		err = o.leaveOut(l.Own[0])
	}
	if err == nil && o.deep > deepest {
		err = ErrDeep
	}
	if err != nil {
		o.Abandon()
		return nil, err
	}
	return o, nil
}

// measure counts what is in memory.
func (g *Ground) measure(l *supervisor.Layer) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(l.Own[0], &fs); err != nil {
		return fmt.Errorf("fstatfs of a layer: %w", err)
	}
	g.used = Used{int64(fs.Blocks-fs.Bfree) * fs.Bsize, max(int64(fs.Files-fs.Ffree)-l.Files, 0), map[string]int64{}}
	for _, u := range g.places {
		dir, ok := strings.CutPrefix(u.Dir, handoff.SizedDir)
		if !ok {
			continue
		}
		dir, _, _ = strings.Cut(dir, "/")
		fd, err := unix.Openat(l.Own[0], handoff.SizedDir+dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Fstatfs(fd, &fs)
			_ = unix.Close(fd)
		}
		if err != nil {
			return fmt.Errorf("fstatfs of %s in a layer: %w", u.Dst, err)
		}
		g.used.Sized[u.Dst] = int64(fs.Blocks-fs.Bfree) * fs.Bsize
	}
	return nil
}

// leaveOut leaves out the places that are as they were: each layer is asked for each name. The first that has a place stays.
func (g *Ground) leaveOut(scratch int) error {
	dirs, err := supervisor.OpenPlaces(scratch, g.places)
	if err != nil {
		return fmt.Errorf("open of a layer: %w", err)
	}
	g.modes = map[string]uint32{}
	g.places = slices.DeleteFunc(slices.Clone(g.places), func(u handoff.Upper) bool {
		fd := dirs[u.Dst]
		defer unix.Close(fd)
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil {
			return false
		}
		g.modes[u.Dst] = st.Mode
		for b := g.below; b != nil; b = b.below {
			if was, has := b.modes[u.Dst]; has {
				return was == st.Mode && empty(fd)
			}
		}
		return false
	})
	return nil
}

// empty says whether there is nothing in an upper directory, and nothing known of it.
func empty(fd int) bool {
	var buf [4096]byte
	if n, err := unix.Flistxattr(fd, buf[:]); err != nil || strings.Trim(strings.ReplaceAll(string(buf[:n]), "user.overlay.impure", ""), "\x00") != "" {
		return false
	}
	for e, err := range linux.Dirents(fd, buf[:]) {
		if err != nil || len(e.Name) > 0 {
			return false
		}
	}
	return true
}

func (g *Ground) depth() int {
	if g == nil {
		return 0
	}
	return g.deep
}

// Hold is for one more who has it, and Drop for one less: the last lets go of what it is.
func (g *Ground) Hold() *Ground {
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.refs++
	}
	return g
}

// Drop is the end of a Hold.
func (g *Ground) Drop() {
	for g != nil {
		g.mu.Lock()
		g.refs--
		last := g.refs == 0
		mounts := g.mounts
		if last {
			g.mounts = nil
		}
		g.mu.Unlock()
		if !last {
			return
		}
		linux.CloseAll(mounts)
		snapshot.CloseTrees(g.trees)
		if g.from != nil {
			g.from.Drop()
		}
		g = g.below
	}
}

// InMemory says whether a mount is needed to stand on it.
func (g *Ground) InMemory() bool { return g != nil && g.trees == nil }

// Take gives a mount to stand on, which is used up by that. -1: none is needed. It is false when none is left.
func (g *Ground) Take() (mount int, ok bool) {
	if !g.InMemory() {
		return -1, true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.mounts)
	if n == 0 {
		return -1, false
	}
	mount, g.mounts = g.mounts[n-1], g.mounts[:n-1]
	return mount, true
}

// Ready says whether there is what Take gives.
func (g *Ground) Ready() bool {
	if !g.InMemory() {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.mounts) > 0
}

// Put takes mounts that a box which stands on it has handed out.
func (g *Ground) Put(mounts []int) {
	if g.InMemory() {
		g.mu.Lock()
		defer g.mu.Unlock()
		for len(mounts) > 0 && len(g.mounts) < spare {
			g.mounts, mounts = append(g.mounts, mounts[0]), mounts[1:]
		}
	}
	linux.CloseAll(mounts)
}

// Layers are for the box that stands on it, the lowest first.
func (g *Ground) Layers() (all []handoff.Layer) {
	if g == nil {
		return nil
	}
	all = g.below.Layers()
	if g.InMemory() {
		return append(all, handoff.Layer{Places: g.places})
	}
	for _, t := range g.trees {
		all = append(all, handoff.Layer{Src: t.Path, Dev: t.Dev, Ino: t.Ino})
	}
	return all
}

// Used is what all that is in memory holds.
func (g *Ground) Used() Used {
	if g == nil {
		return Used{Sized: map[string]int64{}}
	}
	sum := g.below.Used()
	sum.Bytes += g.used.Bytes
	sum.Files += g.used.Files
	for dst, bytes := range g.used.Sized {
		sum.Sized[dst] += bytes
	}
	return sum
}

// Disk is the part that is on a disk.
func (g *Ground) Disk() *Ground {
	for g.InMemory() {
		g = g.below
	}
	return g
}

// Save writes down what isn't in a store yet, and gives the snapshot that ends with it; none if there is nothing. What
// lies on base isn't looked at any further: base is to be below it wherever that is used.
func (g *Ground) Save(ctx context.Context, st *Store, base *Ground, meta snapshot.Meta) (id string, err error) {
	if g == base || g == nil {
		return "", nil
	}
	g.mu.Lock()
	id, known := g.ids[st.path]
	g.mu.Unlock()
	if known && st.has(id) { // else it was thrown away, and what stands on it is written down once more
		return id, nil
	}
	if g.InMemory() {
		id, err = g.saveMemory(ctx, st, base, meta)
	} else {
		id, err = g.bring(ctx, st, base, meta)
	}
	if err == nil {
		g.mu.Lock()
		g.ids[st.path] = id
		g.mu.Unlock()
	}
	return id, err
}

func (g *Ground) saveMemory(ctx context.Context, st *Store, base *Ground, meta snapshot.Meta) (id string, err error) {
	if meta.Parent, err = g.below.Save(ctx, st, base, meta); err != nil {
		return "", err
	}
	g.mu.Lock()
	if len(g.mounts) == 0 {
		g.mu.Unlock()
		return "", fmt.Errorf("no mount is left of what it stands on: %w", unix.ESTALE)
	}
	mount, err := unix.FcntlInt(uintptr(g.mounts[0]), unix.F_DUPFD_CLOEXEC, 0)
	g.mu.Unlock()
	if err != nil {
		return "", err
	}
	defer unix.Close(mount)
	dirs, err := supervisor.OpenPlaces(mount, g.places)
	if err != nil {
		return "", err
	}
	return st.Add(ctx, meta, dirs)
}

// bring takes a snapshot over from its own store; one of layers that lie on others, layer by layer.
func (g *Ground) bring(ctx context.Context, st *Store, base *Ground, meta snapshot.Meta) (id string, err error) {
	if g.below != nil || !g.from.has(g.Info.ID) {
		if id, err = g.below.Save(ctx, st, base, meta); err != nil {
			return "", err
		}
		for _, t := range g.trees {
			dirs, err := open(t, g.Info.Places)
			if err != nil {
				return "", err
			}
			meta.Parent = id
			if id, err = st.Add(ctx, meta, dirs); err != nil {
				return "", err
			}
		}
		return id, nil
	}
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(g.from.s.Export(ctx, g.Info.ID, w)) }()
	defer r.Close()
	return st.s.Import(ctx, r, snapshot.Limits{})
}

// has says whether a snapshot is in the store.
func (st *Store) has(id string) bool {
	_, err := st.s.Get(id)
	return err == nil
}

// open opens the places of a layer that is a directory.
func open(t snapshot.Tree, places []snapshot.PlaceInfo) (dirs map[string]int, err error) {
	dirs = map[string]int{}
	for _, p := range places {
		fd, err := unix.Openat2(int(t.Dir.Fd()), "./"+strings.TrimPrefix(p.Path, "/"), &unix.OpenHow{
			Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			for _, fd := range dirs {
				_ = unix.Close(fd)
			}
			return nil, fmt.Errorf("%s of a layer: %w", p.Path, err)
		}
		dirs[p.Path] = fd
	}
	return dirs, nil
}

// Add writes down what is in directories, and closes them.
func (st *Store) Add(ctx context.Context, meta snapshot.Meta, dirs map[string]int) (id string, err error) {
	var places []snapshot.Place
	for path, fd := range dirs {
		defer unix.Close(fd)
		places = append(places, snapshot.Place{Path: path, Dir: fd})
	}
	meta.Created = time.Now()
	return st.s.Add(ctx, meta, places)
}

// Own is what it holds by itself.
func (g *Ground) Own() Used { return g.used }

// Abandon is Drop of one that nobody stands on, whose mounts are somebody else's again.
func (g *Ground) Abandon() {
	g.mu.Lock()
	g.mounts = nil
	g.mu.Unlock()
	g.Drop()
}
