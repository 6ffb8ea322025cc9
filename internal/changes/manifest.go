package changes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

const manifestVersion = 1

// manifest is what the store has about a run. Names in it are encoded.
type manifest struct {
	Version int        `json:"version"`
	ID      string     `json:"id"`
	Time    time.Time  `json:"time"` // when the run began
	Command []string   `json:"command"`
	Trees   []keptTree `json:"trees"`
	// Protect are paths that the policy protected: absolute, or at the end of any.
	Protect []string `json:"protect,omitempty"`
	Summary *Summary `json:"summary,omitempty"` // of Changes
	Changes []Entry  `json:"changes"`           // the last, so that a list needn't read it

	linked map[applied][]string // see linkedTo
}

type keptTree struct {
	Path      string `json:"path"`
	Ino       uint64 `json:"ino"`
	Truncated int    `json:"truncated,omitempty"`
	Deep      int    `json:"deep,omitempty"` // see Set
	DeepIn    string `json:"deep_in,omitempty"`
}

// applied names a change, or the object at its path.
type applied struct {
	Tree int    `json:"tree"`
	Path string `json:"path"`
}

// Base is what the real tree had when the run was kept.
type Base struct {
	Type   Type   `json:"type,omitempty"`
	Digest string `json:"digest,omitempty"` // of a file
	Mode   uint32 `json:"mode,omitempty"`
	Target string `json:"target,omitempty"` // of a symbolic link
	// Stamp stands for the digest of a file that couldn't be read: size, inode, mtime.
	Stamp string `json:"stamp,omitempty"`
	// Raced: it was changed after the run began, so the run may have begun with
	// something else.
	Raced bool `json:"raced,omitempty"`
	// Xattrs is a digest of the attributes, "" of none.
	Xattrs string `json:"xattrs,omitempty"`
}

// Entry is a change that was kept.
type Entry struct {
	Change
	Base   Base              `json:"base"`
	Digest string            `json:"digest,omitempty"`
	Blob   string            `json:"blob,omitempty"`
	Xattrs map[string][]byte `json:"xattrs,omitempty"` // of an object that isn't deleted
	// Unkept says why the new content isn't in the store, if it had to be.
	Unkept string `json:"unkept,omitempty"`
	// Linked are other names of the same file that were applied before. The first entry that
	// is left of the file has them for all.
	Linked []string `json:"linked,omitempty"`
}

// mapped is e with f done to its names.
func (e Entry) mapped(f func(string) (string, error)) (Entry, error) {
	var err error
	for _, p := range []*string{&e.Path, &e.Target, &e.OldTarget, &e.Link, &e.Base.Target} {
		if *p, err = f(*p); err != nil {
			return e, err
		}
	}
	e.Linked = slices.Clone(e.Linked)
	for i := range e.Linked {
		if e.Linked[i], err = f(e.Linked[i]); err != nil {
			return e, err
		}
	}
	if e.Xattrs == nil {
		return e, nil
	}
	x := make(map[string][]byte, len(e.Xattrs))
	for k, v := range e.Xattrs {
		if k, err = f(k); err != nil {
			return e, err
		}
		x[k] = v
	}
	e.Xattrs = x
	return e, nil
}

// parseStrict refuses unknown fields, and anything after the value.
func parseStrict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("something follows the value")
	}
	return nil
}

func (m *manifest) check() error {
	if !validID(m.ID) {
		return fmt.Errorf("id %q", m.ID)
	}
	for _, t := range m.Trees {
		if !path.IsAbs(t.Path) || path.Clean(t.Path) != t.Path || strings.IndexByte(t.Path, 0) >= 0 || t.Truncated < 0 || t.Deep < 0 || t.DeepIn != "" && !validPath(t.DeepIn) {
			return fmt.Errorf("tree %q", t.Path)
		}
	}
	if m.Summary != nil && *m.Summary != m.summary() {
		return fmt.Errorf("the summary isn't that of the changes")
	}
	for i := range m.Changes {
		e := &m.Changes[i]
		if e.Tree < 0 || e.Tree >= len(m.Trees) {
			return fmt.Errorf("change %q is in no tree", e.Path)
		}
		if err := e.check(); err != nil {
			return fmt.Errorf("change %q: %w", e.Path, err)
		}
		if i == 0 {
			continue
		}
		if p := &m.Changes[i-1]; p.Tree > e.Tree || p.Tree == e.Tree && comparePaths(p.Path, e.Path) >= 0 {
			return fmt.Errorf("change %q is not in order", e.Path)
		}
	}
	return nil
}

func (e *Entry) check() error {
	if !validPath(e.Path) || e.Link != "" && (!validPath(e.Link) || e.Link == e.Path) {
		return fmt.Errorf("not a path below a tree")
	}
	if len(e.Linked) > maxLinked || len(e.Linked) > 0 && e.now() != File {
		return fmt.Errorf("%d names of the same file", len(e.Linked))
	}
	for _, p := range e.Linked {
		if !validPath(p) || p == e.Path {
			return fmt.Errorf("not a path below a tree")
		}
	}
	switch e.Kind {
	case Added, Modified, Deleted, ModeOnly, Relinked:
	default:
		return fmt.Errorf("kind %q", e.Kind)
	}
	for _, t := range []Type{e.Type, e.Was, e.Base.Type} {
		switch t {
		case Absent, File, Dir, Symlink, FIFO, Socket, Device:
		default:
			return fmt.Errorf("type %q", t)
		}
	}
	if e.Type == Absent || e.Mode|e.OldMode|e.Base.Mode > 0o7777 || e.Size < 0 || e.OldSize < 0 {
		return fmt.Errorf("what can't be: type %q, mode %o, size %d", e.Type, e.Mode, e.Size)
	}
	if !validHex(e.Digest, 64) || !validHex(e.Base.Digest, 64) || !validHex(e.Base.Xattrs, 64) || len(e.Blob) > 16 || strings.Trim(e.Blob, "0123456789") != "" {
		return fmt.Errorf("digest or blob")
	}
	content := e.Type == File && (e.Kind == Added || e.Kind == Modified || e.Kind == Relinked)
	if content != (e.Blob != "") && e.Unkept == "" || e.Blob != "" && e.Digest == "" {
		return fmt.Errorf("a file without its content, or the reverse")
	}
	if (e.Target != "") != (e.now() == Symlink) && e.Kind != ModeOnly || strings.IndexByte(e.Target, 0) >= 0 {
		return fmt.Errorf("target of a symbolic link")
	}
	for k := range e.Xattrs {
		if !ownXattr(k) {
			return fmt.Errorf("attribute %q", k)
		}
	}
	return nil
}

// ownXattr: an attribute that is part of a change. The overlay's own never are.
func ownXattr(name string) bool {
	return name == "system.posix_acl_access" || name == "system.posix_acl_default" || strings.HasPrefix(name, "user.") && len(name) > len("user.") && len(name) < 256 &&
		!strings.HasPrefix(name, "user.overlay.") && strings.IndexByte(name, 0) < 0
}

// maxPath is PATH_MAX without the NUL.
const maxPath = 4095

func validPath(p string) bool {
	if p == "" || len(p) > maxPath || strings.IndexByte(p, 0) >= 0 {
		return false
	}
	for c := range strings.SplitSeq(p, "/") {
		if c == "" || c == "." || c == ".." || len(c) > 255 {
			return false
		}
	}
	return true
}

func validHex(s string, n int) bool {
	return s == "" || len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

// validID: 20261122T011500-0a1b2c.
func validID(id string) bool {
	if len(id) != 22 || id[8] != 'T' || id[15] != '-' {
		return false
	}
	return strings.Trim(id[:8]+id[9:15], "0123456789") == "" && strings.Trim(id[16:], "0123456789abcdef") == ""
}
