package image

import (
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

	"golang.org/x/sys/unix"
)

// ErrNotUnpacked: the image isn't in the cache.
var ErrNotUnpacked = errors.New("is not unpacked yet")

// Is says whether src is an image, and not a tree of files as it is.
func Is(src string) bool {
	st, err := os.Stat(src)
	return err == nil && (st.Mode().IsRegular() || st.IsDir() && isLayout(src))
}

const (
	unfinished = "unfinished-"
	treeName   = "tree"
	metaName   = "image.json"
)

// Find gives the tree of an image that was unpacked before. It changes nothing.
func Find(src, cache string) (Tree, error) {
	key, err := keyOf(src)
	if err != nil {
		return Tree{}, err
	}
	dir, err := openCache(cache)
	if errors.Is(err, fs.ErrNotExist) {
		return Tree{}, ErrNotUnpacked
	} else if err != nil {
		return Tree{}, err
	}
	defer dir.Close()
	return load(dir, key)
}

// Unpack gives the tree of an image, and unpacks it first where nobody did.
func Unpack(src, cache string) (Tree, error) {
	key, err := keyOf(src)
	if err != nil {
		return Tree{}, err
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return Tree{}, err
	}
	dir, err := openCache(cache)
	if err != nil {
		return Tree{}, err
	}
	defer dir.Close()
	if t, err := load(dir, key); !errors.Is(err, ErrNotUnpacked) {
		return t, err
	}
	// One at a time: whoever waits finds it done. The lock goes with its holder.
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return Tree{}, &os.PathError{Op: "flock", Path: cache, Err: err}
	}
	if t, err := load(dir, key); !errors.Is(err, ErrNotUnpacked) {
		return t, err
	}
	if err := sweep(dir); err != nil {
		return Tree{}, err
	}
	if err := build(src, int(dir.Fd()), key); err != nil {
		return Tree{}, err
	}
	return load(dir, key)
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
		return fmt.Errorf("%s: somebody else owns it or can write to it", dir.Name())
	}
	return nil
}

// sweep removes what an interrupted run left. Only the holder of the lock does.
func sweep(dir *os.File) error {
	names, err := list(int(dir.Fd()))
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.HasPrefix(n, unfinished) {
			if err := removeAll(int(dir.Fd()), n); err != nil {
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
func build(src string, cache int, key string) (err error) {
	name := unfinished + rand.Text()
	if err := unix.Mkdirat(cache, name, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = removeAll(cache, name)
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
	meta, err := unpack(src, key, entry, root)
	if err != nil {
		return err
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	fd, err := unix.Openat(entry, metaName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := fileWriter(fd).Write(text); err != nil {
		return err
	}
	if err := unix.Syncfs(entry); err != nil { // a name stands for all of it, after a crash too
		return err
	}
	return unix.Renameat(cache, name, cache, key)
}

// unpack fills the tree at root.
func unpack(src, key string, entry, root int) (meta Meta, err error) {
	if st, err := os.Stat(src); err != nil {
		return meta, err
	} else if st.IsDir() {
		return layout{src}.unpack(key, root)
	}
	f, err := openRegular(src)
	if err != nil {
		return meta, err
	}
	defer f.Close()
	sum := sha256.New()
	in, err := plain(io.TeeReader(f, sum))
	if err != nil {
		return meta, err
	}
	defer in.Close()
	x := newExtractor(root)
	if err := x.layer(in); err != nil {
		return meta, err
	}
	if err := same(sum, f, key); err != nil {
		return meta, err
	}
	// A tar of a layout was unpacked like any other; what it holds is the image.
	dir := "/proc/self/fd/" + fmt.Sprint(root)
	if !isLayout(dir) {
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
	if meta, err = (layout{dir}).unpack("", inner); err != nil {
		return meta, err
	}
	return meta, removeAll(entry, "layout")
}

// unpack puts the layers of the image one on the other.
func (l layout) unpack(key string, root int) (meta Meta, err error) {
	m, digest, err := l.find()
	if err != nil {
		return meta, err
	}
	if key != "" && digest != "sha256:"+key {
		return meta, errors.New("it was replaced meanwhile")
	}
	if meta, err = l.meta(m); err != nil {
		return meta, err
	}
	x := newExtractor(root)
	for _, d := range m.Layers {
		if err := l.layer(x, d); err != nil {
			return meta, fmt.Errorf("layer %s: %w", d.Digest, err)
		}
	}
	return meta, nil
}

func (l layout) layer(x *extractor, d descriptor) error {
	name, err := hexOf(d.Digest)
	if err != nil {
		return err
	}
	f, err := l.blob(d)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	in, err := plain(io.TeeReader(f, sum))
	if err != nil {
		return err
	}
	defer in.Close()
	if err := x.layer(in); err != nil {
		return err
	}
	return same(sum, f, name)
}

// same reads what is left of a file, and holds all of it against its digest.
func same(sum hash.Hash, rest io.Reader, want string) error {
	if _, err := io.Copy(sum, rest); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return fmt.Errorf("sha256:%s: the content has another digest", want)
	}
	return nil
}

// keyOf is the name of an image in the cache: the digest of its manifest, or of
// the file.
func keyOf(src string) (string, error) {
	st, err := os.Stat(src)
	if err != nil {
		return "", err
	}
	if st.IsDir() {
		if !isLayout(src) {
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
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}
