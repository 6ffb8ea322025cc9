package filetree

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// MaxFiles is how many files a tar may have, either way.
const MaxFiles = 100_000

// Error is what is wrong with a tar.
type Error struct{ Msg string }

func (e *Error) Error() string { return "the tar: " + e.Msg }

var errMany = &Error{"more than 100,000 files"}

// Packer writes trees into a tar. What is no directory, no regular file and no symbolic link is left out.
type Packer struct {
	files Files
	to    *tar.Writer
	n     int
	keep  func(name string) bool // of files and links; nil: all. Directories are left out with it
}

// Pack writes what is below a directory; of a file, that file under its own name. began says whether anything was written.
func Pack(files Files, name string, to io.Writer) (began bool, err error) {
	p := &Packer{files: files, to: tar.NewWriter(to)}
	info, err := files.Stat(name)
	if err == nil {
		as := ""
		if !info.IsDir() {
			as = path.Base(name)
		}
		err = p.add(name, as, info)
	}
	if err == nil {
		return true, p.to.Close()
	}
	return p.n > 0, err
}

// PackSome writes the files and links below a directory whose names, relative to it, are to be kept, and gives their number. It makes
// no entries of directories: whoever unpacks it makes those that are needed.
func PackSome(files Files, dir string, to io.Writer, keep func(name string) bool) (n int, err error) {
	p := &Packer{files: files, to: tar.NewWriter(to), keep: keep}
	info, err := files.Stat(dir)
	if err == nil {
		err = p.add(dir, "", info)
	}
	if err == nil {
		err = p.to.Close()
	}
	return p.n, err
}

func (p *Packer) add(name, as string, info fs.FileInfo) error {
	h := &tar.Header{Name: as, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}
	switch {
	case info.IsDir():
		return p.directory(name, as, h)
	case p.keep != nil && !p.keep(as):
		return nil
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := p.files.Readlink(name)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
		return p.header(h)
	case !info.Mode().IsRegular():
		return nil
	}
	f, err := p.files.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := p.header(h); err != nil {
		return err
	}
	n, err := io.Copy(p.to, io.LimitReader(f, h.Size))
	if err == nil && n < h.Size { // it became shorter: what is missing is zeros
		_, err = io.CopyN(p.to, zeros{}, h.Size-n)
	}
	return err
}

func (p *Packer) directory(name, as string, h *tar.Header) error {
	entries, err := p.files.List(name)
	if err != nil {
		return err
	}
	if as != "" && p.keep == nil {
		h.Typeflag, h.Name = tar.TypeDir, as+"/"
		if err := p.header(h); err != nil {
			return err
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		below := path.Join(name, e.Name())
		info, err := p.files.Lstat(below)
		if err == nil {
			err = p.add(below, path.Join(as, e.Name()), info)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // else it is gone by now
			return err
		}
	}
	return nil
}

func (p *Packer) header(h *tar.Header) error {
	if p.n++; p.n > MaxFiles {
		return errMany
	}
	return p.to.WriteHeader(h)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// later is what is made when everything else is there: nothing of a tar is made through a link of its own, or in a directory that it
// closes.
type later struct {
	links []*tar.Header
	modes []*tar.Header
	left  []string // what was left out already
}

// Unpack makes the directories, regular files and symbolic links of a tar below a directory. With within, links that could lead
// out of that are left out, and named. Anything else in it is an [Error], as are names that lead out.
func Unpack(files Files, dir string, from io.Reader, within bool) (left []string, err error) {
	if err := MakeAll(files, dir); err != nil {
		return nil, err
	}
	var last later
	t := tar.NewReader(from)
	for n := 0; ; n++ {
		h, err := t.Next()
		if err == io.EOF {
			return last.make(files, dir, within)
		}
		if err != nil {
			return nil, cut(err)
		}
		if n >= MaxFiles {
			return nil, errMany
		}
		if h.Name = path.Clean(strings.TrimSuffix(h.Name, "/")); !fs.ValidPath(h.Name) {
			return nil, &Error{strconv.Quote(h.Name) + " leads out of it"}
		}
		for key := range h.PAXRecords {
			if strings.HasPrefix(key, "GNU.sparse.") { // a few bytes of it would be as many as it says
				return nil, &Error{strconv.Quote(h.Name) + " is sparse"}
			}
		}
		if within && through(files, dir, h.Name) {
			last.left = append(last.left, h.Name)
			continue
		}
		name := path.Join(dir, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			if err = MakeAll(files, name); err == nil && h.Name != "." {
				last.modes = append(last.modes, h)
			}
		case tar.TypeReg:
			err = file(files, name, fs.FileMode(h.Mode&0o777), t)
		case tar.TypeSymlink:
			last.links = append(last.links, h)
		default:
			err = &Error{strconv.Quote(h.Name) + " is no file, directory or symbolic link"}
		}
		if err != nil {
			return nil, cut(err)
		}
	}
}

// file makes a regular file, with its mode even where one was there, and whatever the umask.
func file(files Files, name string, perm fs.FileMode, from io.Reader) error {
	if err := Write(files, name, perm, from); err != nil {
		return err
	}
	if info, err := files.Stat(name); err != nil || info.Mode().Perm() == perm {
		return err
	}
	return files.Chmod(name, perm)
}

// cut is an error of reading a tar that is none, or that ends early.
func cut(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Error{err.Error()}
	}
	return err
}

func (l *later) make(files Files, dir string, within bool) (left []string, err error) {
	left = l.left
	for _, h := range l.links {
		if within && (!inside(h.Name, h.Linkname) || through(files, dir, h.Name)) {
			left = append(left, h.Name)
			continue
		}
		name := path.Join(dir, h.Name)
		if err := MakeParents(files, name); err != nil {
			return left, err
		}
		if info, err := files.Lstat(name); err == nil && !info.IsDir() {
			if err := files.Remove(name); err != nil {
				return left, err
			}
		}
		if err := files.Symlink(h.Linkname, name); err != nil {
			return left, err
		}
	}
	for _, h := range slices.Backward(l.modes) { // those in a directory before it
		info, err := files.Lstat(path.Join(dir, h.Name))
		if err == nil && info.IsDir() {
			err = files.Chmod(path.Join(dir, h.Name), fs.FileMode(h.Mode&0o777))
		}
		if err != nil {
			return left, err
		}
	}
	return left, nil
}

// through says whether a link is on the way to a name: it was there before, and nobody knows where it leads by now.
func through(files Files, dir, name string) bool {
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if info, err := files.Lstat(path.Join(dir, at)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// inside says whether a link stays in its tree, whatever other links there stay in it, too: it goes up before it goes down, and not
// further than the top.
func inside(name, target string) bool {
	if target == "" || path.IsAbs(target) {
		return false
	}
	up, down := strings.Count(name, "/"), false
	for _, part := range strings.Split(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if up--; up < 0 || down {
				return false
			}
		default:
			down = true
		}
	}
	return true
}
