package snapshot

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// Trees gives the layers of a snapshot as directories, the bottom first. Each is unpacked once, and shared: nobody may
// write to it. Whoever gets them lets go by CloseTrees, when no mount of them is left.
func (s *Store) Trees(ctx context.Context, id string) (trees []Tree, err error) {
	defer func() {
		if err != nil {
			CloseTrees(trees)
			trees = nil
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
		}
	}()
	in, err := s.Get(id)
	if err != nil {
		return nil, err
	}
	for _, layer := range in.Layers {
		t, err := s.tree(layer)
		for again := 0; err == unix.ENOENT && again < 3; again++ { // it can be removed as soon as it is there
			if err = s.makeTree(ctx, layer); err == nil {
				t, err = s.tree(layer)
			}
		}
		if err != nil {
			return trees, fmt.Errorf("layer %s: %w", layer, err)
		}
		trees = append(trees, t)
	}
	return trees, nil
}

// tree holds a tree that was unpacked before; ENOENT: there is none.
func (s *folder) tree(layer string) (Tree, error) {
	t := Tree{Path: s.path + "/" + treesDir + "/" + layer}
	for {
		fd, err := linux.OpenBeneath(s.fd(), treesDir+"/"+layer, dirFlags)
		if err != nil {
			return t, err
		}
		t.Dir = os.NewFile(uintptr(fd), t.Path)
		if err := linux.Flock(fd, unix.LOCK_SH); err == unix.EWOULDBLOCK { // somebody removes it
			_ = t.Dir.Close()
			time.Sleep(time.Millisecond)
			continue
		} else if err != nil {
			_ = t.Dir.Close()
			return t, err
		}
		var held, there unix.Stat_t
		err = unix.Fstat(fd, &held)
		if err == nil {
			err = unix.Fstatat(s.fd(), treesDir+"/"+layer, &there, unix.AT_SYMLINK_NOFOLLOW)
		}
		if err == nil && held.Dev == there.Dev && held.Ino == there.Ino {
			t.Dev, t.Ino = held.Dev, held.Ino
			return t, nil
		}
		_ = t.Dir.Close()
		if err != nil {
			return t, err
		}
	}
}

// makeTree unpacks a layer that is in the store. Of several who want it, one does, and the others wait.
func (s *Store) makeTree(ctx context.Context, layer string) error {
	unlock, err := s.lockLayer(ctx, layer)
	if err != nil {
		return err
	}
	defer unlock()
	if t, err := s.tree(layer); err != unix.ENOENT {
		_ = t.Dir.Close()
		return err
	}
	w, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.end(w)
	f, err := openBeneathFile(s.fd(), blobsDir+"/"+layer)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer f.Close()
	budget, err := newBudget(w.fd, Limits{Bytes: 1 << 62, Names: 1 << 62})
	if err != nil {
		return err
	}
	if err := s.unpackLayer(ctx, w, layer, f, budget); err != nil {
		if !ofHost(err) && !errors.Is(err, ErrDamaged) { // it was taken once
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return err
	}
	unlock2, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock2()
	return failed("rename", s.path+"/"+treesDir, s.move(w, treesDir, []string{layer}))
}

// lockLayer holds a layer for unpacking.
func (s *folder) lockLayer(ctx context.Context, layer string) (unlock func(), err error) {
	f, err := openBeneathFile(s.fd(), blobsDir+"/"+layer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for {
		err := linux.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if err != unix.EWOULDBLOCK || ctx.Err() != nil {
			_ = f.Close()
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func openBeneathFile(dir int, path string) (*os.File, error) {
	fd, err := linux.OpenBeneath(dir, path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// unpackLayer makes the tree of a layer in w, and holds what was read against the digest.
func (s *folder) unpackLayer(ctx context.Context, w *work, layer string, from io.Reader, b *budget) error {
	name := treeIn(layer)
	if err := s.at("unpack"); err != nil {
		return err
	}
	if err := unix.Mkdirat(w.fd, name, 0o700); err != nil {
		return failed("mkdir", s.path, err)
	}
	root, err := openDir(w.fd, name)
	if err != nil {
		return failed("open", s.path, err)
	}
	defer unix.Close(root)
	u := &unpacker{ctx: ctx, root: root, budget: b}
	if u.xwhite, err = s.whiteouts(w.fd); err != nil {
		return err
	}
	sum := sha256.New()
	if err := u.unpack(io.TeeReader(bufio.NewReaderSize(from, 1<<20), sum)); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != layer {
		return fmt.Errorf("%w: %s: the content has another digest", ErrDamaged, layer)
	}
	if err := unix.Fchmod(root, 0o755); err != nil {
		return failed("fchmod", s.path, err)
	}
	if err := s.at("sync tree"); err != nil {
		return err
	}
	return failed("syncfs", s.path, unix.Syncfs(root))
}

// whiteouts finds out by trying how a whiteout can be made: as a device 0/0, or, on an overlayfs, as a
// file with an attribute.
func (s *folder) whiteouts(dir int) (byAttribute bool, err error) {
	const try = "whiteout"
	if !s.noMknod {
		if err := unix.Mknodat(dir, try, unix.S_IFCHR, 0); err == nil {
			return false, unix.Unlinkat(dir, try, 0)
		}
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return false, err
	}
	if !atLeast(unix.ByteSliceToString(name.Release[:]), 6, 7) {
		return false, errNoWhiteout
	}
	fd, err := unix.Openat(dir, try, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	if err := unix.Fsetxattr(fd, linux.OverlayXattr+"whiteout", []byte("y"), 0); err != nil {
		return false, fmt.Errorf("%w: %w", errNoWhiteout, err)
	}
	return true, unix.Unlinkat(dir, try, 0)
}

// atLeast compares the release of a kernel.
func atLeast(release string, major, minor int) bool {
	a, rest, _ := strings.Cut(release, ".")
	b, _, _ := strings.Cut(rest, ".")
	b = b[:len(b)-len(strings.TrimLeft(b, "0123456789"))]
	x, _ := strconv.Atoi(a)
	y, _ := strconv.Atoi(b)
	return x > major || x == major && y >= minor
}
