package windows

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/status"
)

// overlay is a tree of the caller's of which a run has a copy.
type overlay struct {
	tree    string // the caller's
	copy    string // the run's
	was     map[string]file
	size    int64 // that was copied
	skipped int   // links and what is neither file nor directory: they aren't in the copy
}

// moved is where a name of the caller's, absolute and clean, leads inside: in a tree that was copied, to the copy.
func moved(name string, all []*overlay) string {
	for _, o := range slices.Backward(all) {
		if under(name, o.tree) {
			depth := len(strings.Split(fold(o.tree), `\`))
			return strings.Join(append([]string{o.copy}, strings.Split(name, `\`)[depth:]...), `\`)
		}
	}
	return name
}

// file is what is compared: content, and whether it is a directory.
type file struct {
	dir bool
	sum [sha256.Size]byte
}

// tooLargeError is a tree that is neither copied nor granted, since that would take as long as it is large.
type tooLargeError struct {
	tree, what string
}

func (e *tooLargeError) Error() string {
	return strconv.Quote(e.tree) + " has more than " + e.what
}

// survey calls visit for each entry of a tree, the tree itself first, directories before what is in them. Links are told and not
// followed. More than most is a *tooLargeError.
func survey(tree string, most int, visit func(path string, d fs.DirEntry) error) error {
	n := 0
	return filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if n++; n > most {
			return &tooLargeError{tree, strconv.Itoa(most) + " files and directories"}
		}
		return visit(path, d)
	})
}

// plain says whether an entry is a file or a directory, and no link to one: also those links that are called junctions or mount points.
func plain(d fs.DirEntry) bool {
	return d.Type().IsRegular() || d.IsDir() && d.Type()&(fs.ModeSymlink|fs.ModeIrregular) == 0
}

// copyTree copies a tree, which is looked at as a whole before anything is copied.
func copyTree(tree, to string, most int, bytes int64) (*overlay, error) {
	o := &overlay{tree: tree, copy: to, was: map[string]file{}}
	var size int64
	err := survey(tree, most, func(path string, d fs.DirEntry) error {
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if size += info.Size(); size > bytes {
			return &tooLargeError{tree, strconv.FormatInt(bytes>>20, 10) + " MiB"}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(tree) // what becomes a link meanwhile leads nowhere else
	if err != nil {
		return nil, err
	}
	defer root.Close()
	err = survey(tree, most, func(path string, d fs.DirEntry) error {
		rel, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		switch {
		case !plain(d):
			o.skipped++
			return nil
		case d.IsDir():
			o.was[rel] = file{dir: true}
			return os.MkdirAll(at, 0o700)
		}
		f, copied, err := copyFile(root, rel, at, bytes)
		bytes, o.size = bytes-copied, o.size+copied
		if err != nil {
			return err
		}
		o.was[rel] = f
		return nil
	})
	return o, err
}

func copyFile(root *os.Root, rel, to string, most int64) (f file, n int64, err error) {
	in, err := root.Open(rel)
	if err != nil {
		return f, 0, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return f, 0, errors.Join(err, fmt.Errorf("%q is no file any more", rel))
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()|0o200)
	if err != nil {
		return f, 0, err
	}
	sum := sha256.New()
	n, err = io.Copy(io.MultiWriter(out, sum), io.LimitReader(in, most+1))
	if n > most {
		err = &tooLargeError{rel, "what an overlay may copy"}
	}
	err = errors.Join(err, out.Close())
	if err == nil {
		err = os.Chtimes(to, time.Time{}, info.ModTime())
	}
	copy(f.sum[:], sum.Sum(nil))
	return f, n, err
}

// changes are what became of a copy.
func (o *overlay) changes(c *status.Changes) error {
	seen := map[string]bool{}
	root, err := os.OpenRoot(o.copy)
	if err != nil {
		return err
	}
	defer root.Close()
	err = filepath.WalkDir(o.copy, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(o.copy, path)
		if err != nil {
			return err
		}
		seen[rel] = true
		at := filepath.Join(o.tree, rel)
		before, there := o.was[rel]
		if d.IsDir() && plain(d) && there && before.dir {
			return nil
		}
		var now file
		var size int64
		if d.Type().IsRegular() {
			if now, size, err = sumOf(root, rel); err != nil {
				return err
			}
		} else {
			now.dir = d.IsDir() && plain(d)
		}
		switch {
		case !there:
			enter(c, &c.Counts.Added, &c.Added, at)
		case before != now || !plain(d):
			enter(c, &c.Counts.Modified, &c.Modified, at)
		default:
			return nil
		}
		c.Bytes += size
		return nil
	})
	for rel := range o.was {
		if !seen[rel] {
			enter(c, &c.Counts.Deleted, &c.Deleted, filepath.Join(o.tree, rel))
		}
	}
	sort.Strings(c.Deleted)
	return err
}

// maxListed is how many paths of each kind are told.
const maxListed = 1000

func enter(c *status.Changes, n *int, list *[]string, path string) {
	if *n++; len(*list) < maxListed {
		*list = append(*list, path)
	} else {
		c.Truncated = true
	}
}

func sumOf(root *os.Root, rel string) (f file, n int64, err error) {
	in, err := root.Open(rel)
	if err != nil {
		return f, 0, err
	}
	defer in.Close()
	sum := sha256.New()
	n, err = io.Copy(sum, in)
	copy(f.sum[:], sum.Sum(nil))
	return f, n, err
}

// changesOf are those of all overlays; nil: there are none.
func changesOf(all []*overlay) *status.Changes {
	if len(all) == 0 {
		return nil
	}
	c := &status.Changes{}
	for _, o := range all {
		c.Trees = append(c.Trees, o.tree)
		if err := o.changes(c); err != nil && c.Error == "" {
			c.Error, c.Cause = err.Error(), err
		}
	}
	slices.Sort(c.Added)
	slices.Sort(c.Modified)
	return c
}
