package changes

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/linux"
)

const manifestVersion = 2

// manifest is what the store has about a run. In its file, which is read value by value, the changes follow it,
// each as a value of its own: encoded, the names of a hostile run are five times as long. A list needs no change.
type manifest struct {
	Version int        `json:"version"`
	ID      string     `json:"id"`
	Time    time.Time  `json:"time"` // when the run began
	Command []string   `json:"command"`
	Trees   []keptTree `json:"trees"`
	// Protect are paths that the policy protected: absolute, or at the end of any.
	Protect []string `json:"protect,omitempty"`
	Summary *Summary `json:"summary"` // of Changes
	Changes []Entry  `json:"-"`

	linked map[treePath][]string // see linkedTo
}

type keptTree struct {
	Path      string `json:"path"`
	Ino       uint64 `json:"ino"`
	Truncated int    `json:"truncated,omitempty"`
	Deep      int    `json:"deep,omitempty"` // see Set
	DeepIn    string `json:"deep_in,omitempty"`
}

// treePath names a change, or the object at its path.
type treePath struct {
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

func (m *manifest) check() error {
	if !validID(m.ID) {
		return fmt.Errorf("id %q", m.ID)
	}
	for _, t := range m.Trees {
		if !path.IsAbs(t.Path) || path.Clean(t.Path) != t.Path || strings.IndexByte(t.Path, 0) >= 0 || t.Truncated < 0 || t.Deep < 0 || t.DeepIn != "" && !linux.ValidPath(t.DeepIn) {
			return fmt.Errorf("tree %q", t.Path)
		}
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
	if !linux.ValidPath(e.Path) || e.Link != "" && (!linux.ValidPath(e.Link) || e.Link == e.Path) {
		return fmt.Errorf("not a path below a tree")
	}
	if len(e.Linked) > maxLinked || len(e.Linked) > 0 && e.now() != File {
		return fmt.Errorf("%d names of the same file", len(e.Linked))
	}
	for _, p := range e.Linked {
		if !linux.ValidPath(p) || p == e.Path {
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
		if !linux.OwnXattr(k) {
			return fmt.Errorf("attribute %q", k)
		}
	}
	return nil
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

// summary counts the changes.
func (m *manifest) summary() (s Summary) {
	for i := range m.Changes {
		s.add(&m.Changes[i].Change)
	}
	return s
}

func (m *manifest) write(w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	head, sum := *m, m.summary()
	head.Summary = &sum
	err := enc.Encode(encoded(head))
	for i := 0; err == nil && i < len(m.Changes); i++ {
		err = enc.Encode(encoded(m.Changes[i]))
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// parseManifest reads a whole record; parseHead what is before the changes.
func parseManifest(r io.Reader) (*manifest, error) {
	d := json.NewDecoder(r)
	m, err := decodeHead(d)
	if err != nil {
		return nil, err
	}
	for {
		var e Entry
		if err := decodeNext(d, &e); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		m.Changes = append(m.Changes, e)
	}
	if m.Summary == nil || *m.Summary != m.summary() { // it was cut, perhaps
		return nil, fmt.Errorf("the summary isn't that of the changes")
	}
	return m, m.check()
}

func parseHead(r io.Reader) (*manifest, error) { return decodeHead(json.NewDecoder(r)) }

func decodeHead(d *json.Decoder) (*manifest, error) {
	d.DisallowUnknownFields()
	m := &manifest{}
	if err := decodeNext(d, m); err != nil {
		return nil, err
	}
	if m.Version != manifestVersion {
		return nil, fmt.Errorf("version %d of the record is not known", m.Version)
	}
	return m, nil
}

// decodeNext reads one value with its strings decoded.
func decodeNext[T any](d *json.Decoder, v *T) error {
	if err := d.Decode(v); err != nil {
		return err
	}
	return recode(reflect.ValueOf(v).Elem(), decode)
}

// Names are bytes, which JSON doesn't keep: each string of a record or journal is encoded in it. In all that
// isn't a name this changes nothing.

// encode makes any bytes a string that JSON keeps. decode takes nothing but what encode makes.
func encode(name string) string {
	q := strconv.QuoteToASCII(name)
	return q[1 : len(q)-1]
}

func decode(s string) (string, error) {
	name, err := strconv.Unquote(`"` + s + `"`)
	if err != nil || encode(name) != s {
		return "", fmt.Errorf("name %q isn't encoded as it should be", s)
	}
	return name, nil
}

// encoded is v with all its strings encoded. It is a copy.
func encoded[T any](v T) T {
	_ = recode(reflect.ValueOf(&v).Elem(), func(s string) (string, error) { return encode(s), nil })
	return v
}

// recode does f to each string in v, and to the keys of maps. What v refers to is copied, and stays.
func recode(v reflect.Value, f func(string) (string, error)) error {
	switch v.Kind() {
	case reflect.String:
		s, err := f(v.String())
		v.SetString(s)
		return err
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				if err := recode(field, f); err != nil {
					return err
				}
			}
		}
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		c := reflect.New(v.Type().Elem())
		c.Elem().Set(v.Elem())
		v.Set(c)
		return recode(c.Elem(), f)
	case reflect.Slice:
		if v.IsNil() || v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		v.Set(c)
		for i := range c.Len() {
			if err := recode(c.Index(i), f); err != nil {
				return err
			}
		}
	case reflect.Map: // attributes, by their names
		if v.IsNil() {
			return nil
		}
		c := reflect.MakeMap(v.Type())
		for of := v.MapRange(); of.Next(); {
			name, err := f(of.Key().String())
			if err != nil {
				return err
			}
			c.SetMapIndex(reflect.ValueOf(name), of.Value())
		}
		v.Set(c)
	}
	return nil
}

// digestXattrs is "" of none.
func digestXattrs(all map[string][]byte) string {
	if len(all) == 0 {
		return ""
	}
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(all)) {
		for _, b := range [][]byte{[]byte(k), all[k]} {
			_ = binary.Write(h, binary.LittleEndian, uint64(len(b))) // a hash takes all
			h.Write(b)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
