package image

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// ErrNotUnpacked: the image isn't in the cache.
var ErrNotUnpacked = errors.New("is not unpacked yet")

// Is says whether src is an image, and not a tree of files as it is.
func Is(src string) bool {
	st, err := os.Stat(src)
	return err == nil && (st.Mode().IsRegular() || st.IsDir() && isImage(src))
}

const (
	unfinished = "unfinished-"
	treeName   = "tree"
	metaName   = "image.json"
)

// Find gives the tree of an image that was unpacked before. It changes nothing.
func Find(src, cache string) (Tree, error) {
	key, err := keyOf(context.Background(), src)
	if err != nil {
		return Tree{}, err
	}
	dir, err := openCache(cache)
	if errors.Is(err, fs.ErrNotExist) {
		return Tree{}, ErrNotUnpacked
	} else if err != nil {
		return Tree{}, inCache(err)
	}
	defer dir.Close()
	t, err := load(dir, key)
	return t, inCache(err)
}

// Unpack gives the tree of an image, and unpacks it first where nobody did. It stops when
// ctx ends, with the cause of that for an error, and leaves nothing half done.
func Unpack(ctx context.Context, src, cache string) (Tree, error) {
	t, err := unpackOnce(ctx, src, cache)
	if err != nil && ctx.Err() != nil {
		return Tree{}, context.Cause(ctx) // whatever came of it in between
	}
	return t, err
}

func unpackOnce(ctx context.Context, src, cache string) (Tree, error) {
	key, err := keyOf(ctx, src)
	if err != nil {
		return Tree{}, err
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return Tree{}, inCache(err)
	}
	dir, err := openCache(cache)
	if err != nil {
		return Tree{}, inCache(err)
	}
	defer dir.Close()
	if t, err := load(dir, key); !errors.Is(err, ErrNotUnpacked) {
		return t, inCache(err)
	}
	if err := lock(ctx, dir); err != nil {
		return Tree{}, inCache(err)
	}
	if t, err := load(dir, key); !errors.Is(err, ErrNotUnpacked) {
		return t, inCache(err)
	}
	if err := sweep(dir); err != nil {
		return Tree{}, inCache(err)
	}
	if err := build(ctx, src, int(dir.Fd()), key); err != nil {
		return Tree{}, err
	}
	t, err := load(dir, key)
	return t, inCache(err)
}

// lock takes the cache for this process. One at a time: whoever waits finds it done. The
// lock goes with its holder. It is asked for again and again, since a call that waits for
// it would hear nothing of the end of ctx.
func lock(ctx context.Context, dir *os.File) error {
	for {
		err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return &os.PathError{Op: "flock", Path: dir.Name(), Err: err}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// openCache opens the directory of images, if nobody else can have put anything there.
func openCache(cache string) (*os.File, error) {
	dir, err := os.OpenFile(cache, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := private(dir); err != nil {
		_ = dir.Close()
		return nil, err
	}
	return dir, nil
}

// private refuses a cache that somebody else owns or can write to.
func private(dir *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s: %w", dir.Name(), errForeign)
	}
	return nil
}

// sweep removes what an interrupted run left. Only the holder of the lock does.
func sweep(dir *os.File) error {
	names, err := linux.Names(int(dir.Fd()))
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.HasPrefix(n, unfinished) {
			if err := linux.RemoveAll(int(dir.Fd()), n, 0); err != nil {
				return &os.PathError{Op: "remove", Path: n, Err: err}
			}
		}
	}
	return nil
}

func load(cache *os.File, key string) (t Tree, err error) {
	entry := filepath.Join(cache.Name(), key)
	if own, err := os.OpenFile(entry, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err == nil {
		err = private(own)
		_ = own.Close()
		if err != nil {
			return t, err
		}
	}
	text, err := readRegular(filepath.Join(entry, metaName))
	if errors.Is(err, fs.ErrNotExist) {
		return t, ErrNotUnpacked
	}
	if err == nil {
		err = json.Unmarshal(text, &t.Meta)
	}
	t.Root = filepath.Join(entry, treeName)
	return t, err
}

// build unpacks src beside its place, and renames it when it is complete.
func build(ctx context.Context, src string, cache int, key string) (err error) {
	name := unfinished + rand.Text()
	if err := unix.Mkdirat(cache, name, 0o700); err != nil {
		return inCache(&os.PathError{Op: "mkdirat", Path: name, Err: err})
	}
	defer func() {
		if err != nil {
			_ = linux.RemoveAll(cache, name, 0)
		}
	}()
	entry, err := openDir(cache, name)
	if err != nil {
		return err
	}
	defer unix.Close(entry)
	if err := unix.Mkdirat(entry, treeName, 0o755); err != nil {
		return err
	}
	root, err := openDir(entry, treeName)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	meta, err := unpack(ctx, src, key, entry, root)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // from here on it is complete, and worth keeping
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	f, err := create(entry, metaName)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := unix.Syncfs(entry); err != nil { // a name stands for all of it, after a crash too
		return err
	}
	return unix.Renameat(cache, name, cache, key)
}

// unpack fills the tree at root.
func unpack(ctx context.Context, src, key string, entry, root int) (meta Meta, err error) {
	if st, err := os.Stat(src); err != nil {
		return meta, err
	} else if st.IsDir() {
		return layout{src}.unpack(ctx, key, root)
	}
	f, err := openRegular(src)
	if err != nil {
		return meta, err
	}
	defer f.Close()
	sum := sha256.New()
	in, err := plain(ctx, io.TeeReader(f, sum))
	if err != nil {
		return meta, err
	}
	defer in.Close()
	x, err := newExtractor(ctx, root)
	if err != nil {
		return meta, err
	}
	switch err := x.layer(in); {
	case x.entries == maxEntries && (err == nil || errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF)):
		return meta, ErrNotImage // an empty one is none either, nor what is shorter than a header
	case err != nil:
		return meta, err
	}
	if err := errors.Join(rest(sum, until{ctx, f}), matches(sum, "sha256:"+key)); err != nil {
		return meta, err
	}
	// A tar of a layout was unpacked like any other; what it holds is the image.
	dir := "/proc/self/fd/" + fmt.Sprint(root)
	if !isImage(dir) {
		return meta, nil
	}
	if err := unix.Renameat(entry, treeName, entry, "layout"); err != nil {
		return meta, err
	}
	if err := unix.Mkdirat(entry, treeName, 0o755); err != nil {
		return meta, err
	}
	inner, err := openDir(entry, treeName)
	if err != nil {
		return meta, err
	}
	defer unix.Close(inner)
	if meta, err = (layout{dir}).unpack(ctx, "", inner); err != nil {
		return meta, err
	}
	return meta, linux.RemoveAll(entry, "layout", 0)
}

// unpack puts the layers of the image one on the other.
func (l layout) unpack(ctx context.Context, key string, root int) (meta Meta, err error) {
	m, digest, err := l.find()
	if err != nil {
		return meta, err
	}
	if key != "" && digest != "sha256:"+key {
		return meta, errReplaced
	}
	if meta, err = l.meta(m); err != nil {
		return meta, err
	}
	x, err := newExtractor(ctx, root)
	if err != nil {
		return meta, err
	}
	for _, d := range m.Layers {
		if err := l.layer(ctx, x, d); err != nil {
			return meta, fmt.Errorf("layer %s: %w", cmp.Or(d.Digest, d.file), err)
		}
	}
	return meta, nil
}

func (l layout) layer(ctx context.Context, x *extractor, d descriptor) error {
	f, err := l.blob(d)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	in, err := plain(ctx, io.TeeReader(f, sum))
	if err != nil {
		return err
	}
	defer in.Close()
	content, from := sha256.New(), io.Reader(in)
	if d.diffID != "" {
		from = io.TeeReader(in, content)
	}
	if err := x.layer(from); err != nil {
		return err
	}
	if d.diffID != "" {
		if err := matches(content, d.diffID); err != nil {
			return err
		}
	}
	if d.file != "" {
		return nil // what is in it is all that is known of it
	}
	if err := errors.Join(rest(sum, until{ctx, f}), matches(sum, d.Digest)); err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return d.sized(st.Size())
}

// rest reads what is left of a file.
func rest(sum hash.Hash, f io.Reader) error {
	_, err := io.Copy(sum, f)
	return err
}

// matches holds what was read against its digest.
func matches(sum hash.Hash, digest string) error {
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != digest {
		return fmt.Errorf("%w: %s: the content has another digest", ErrDamaged, digest)
	}
	return nil
}

// keyOf is the name of an image in the cache: the digest of its manifest, or of
// the file.
func keyOf(ctx context.Context, src string) (string, error) {
	st, err := os.Stat(src)
	if err != nil {
		return "", err
	}
	if st.IsDir() {
		if !isImage(src) {
			return "", fmt.Errorf("%s %w", src, ErrNotImage)
		}
		_, digest, err := layout{src}.find()
		if err != nil {
			return "", err
		}
		return hexOf(digest)
	}
	f, err := openRegular(src)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, until{ctx, f})
	return hex.EncodeToString(sum.Sum(nil)), err
}
