package confine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
)

// fileName is what a project's file is called.
const fileName = "confine.toml"

// fileMost is the size of the largest file that is read.
const fileMost = 1 << 20

// said is one thing that was said about one option, on its way to a Resolved.
type said struct {
	option *Option
	words  []string // none: a list is emptied
	source string   // for Setting.Source
	where  string   // for messages; with the column
	base   place    // what paths are relative to

	general bool // of a key that stands for several options: a particular one holds against it
	no      bool // the list was emptied by "false"
}

// file is what one file says.
type file struct {
	path     string
	settings []said
	pieces   []piece // of profiles
	test     []said  // of [test]: laid over the profile "testing"
	testOff  bool    // sandbox = false in [test]: they are not
}

// piece is what one place says about one profile.
type piece struct {
	name     string
	extends  string // empty: not said
	where    string // of extends, or of the profile
	settings []said
}

// readPolicyFile reads a file once: what is trusted, and what is parsed, are the
// same bytes.
func readPolicyFile(path string, follow bool) ([]byte, error) {
	f, err := openPolicyFile(path, follow)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	data, err := io.ReadAll(io.LimitReader(f, fileMost+1))
	if err != nil {
		return nil, err
	}
	if len(data) > fileMost {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("larger than 1 MiB")}
	}
	return data, nil
}

// unreadable turns an error of readPolicyFile into one for the user.
func unreadable(path string, err error) error {
	op, cause := "read", err
	var pe *fs.PathError
	if errors.As(err, &pe) {
		op, cause = pe.Op, pe.Err
	}
	hint := "make it a TOML file that you can read, or remove it"
	if errors.Is(err, fs.ErrNotExist) {
		hint = "check the path"
	}
	return &UsageError{Msg: fmt.Sprintf("%s %q: %v", op, path, cause), Hint: hint, Err: err}
}

// parseFile reads what a file says. Everything in it must be known.
func parseFile(path string, data []byte, home string) (*file, error) {
	doc, err := parseDocument(path, data)
	if err != nil {
		return nil, err
	}
	in := &interpreter{
		doc: doc,
		out: &file{path: path},
		at:  place{dir: filepath.Dir(path), home: home},
	}
	for _, e := range doc.entries {
		if err := in.entry(e); err != nil {
			return nil, err
		}
	}
	if err := in.contradictions(); err != nil {
		return nil, err
	}
	return in.out, nil
}

// printable is a path for a line of text: quoted when it could break the line.
func printable(path string) string {
	if q := strconv.Quote(path); q != `"`+path+`"` {
		return q
	}
	return path
}
