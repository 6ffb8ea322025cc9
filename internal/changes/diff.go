package changes

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/confine-run/confine/internal/unseen"
)

// DiffOptions choose what Diff writes: one line for each path, if nothing else.
//
//	A path                  added
//	M path                  modified, or of another type: (dir → file)
//	D path                  deleted
//	m path 0644 → 0755      mode; also owner or attributes
//	L path → target         symbolic link
//
// Behind it, if apply would bring it about: the mode of a new object, if it isn't a
// usual one; (hard link of path), of a changed or an unchanged one; (one of 2 hard links; …)
// of a file whose other names keep the old content; (set-id is not applied); (attributes) that are other user.* ones than there
// were; to root (owner 0:0, was 1000:1000); (leads out of the tree) of a symbolic link that apply doesn't make unasked; and (can't be applied) of what couldn't be kept whole: JSON says why.
//
// A directory ends in "/".
type DiffOptions struct {
	Patch bool
	JSON  bool
	// From is the directory that paths are relative to, if there is one tree, and that is this
	// directory, in it or around it. Else they are absolute, as they are without it. JSON has
	// them as it always does.
	From string
	// Largest is the size of a file, on either side, that a patch shows; 0: 1 MiB.
	Largest int64
	// Total bounds a patch; the rest is counted. 0: 64 MiB.
	Total int64
}

func (o DiffOptions) orDefault() DiffOptions {
	o.Largest = cmp.Or(o.Largest, 1<<20)
	o.Total = cmp.Or(o.Total, 64<<20)
	return o
}

// diffDocument is what --json writes; fields are added only.
type diffDocument struct {
	Version   int          `json:"version"` // 1
	Run       string       `json:"run"`
	Time      time.Time    `json:"time"`
	Command   []string     `json:"command"`
	Trees     []string     `json:"trees"`
	Truncated int          `json:"truncated"` // changes that weren't kept, at least
	Deep      int          `json:"deep"`      // of those, with paths that are too long
	Summary   Summary      `json:"summary"`
	Changes   []diffChange `json:"changes"`
}

type diffChange struct {
	Tree int    `json:"tree"` // index in trees
	Path string `json:"path"` // below the tree; U+FFFD for what isn't UTF-8
	// PathBytes is the path in base64, if it isn't UTF-8.
	PathBytes string `json:"path_bytes,omitempty"`
	Kind      Kind   `json:"kind"` // added, modified, deleted, mode, link
	Type      Type   `json:"type"` // file, dir, symlink, fifo, socket, device; of a deletion, what was
	Was       Type   `json:"was,omitempty"`
	Mode      string `json:"mode,omitempty"` // four octal digits
	OldMode   string `json:"old_mode,omitempty"`
	// SetIDLeftOut: the mode has set-id bits that apply leaves out.
	SetIDLeftOut bool `json:"set_id_left_out,omitempty"`
	// Owners are set by root alone.
	UID    uint32  `json:"uid"`
	GID    uint32  `json:"gid"`
	OldUID *uint32 `json:"old_uid,omitempty"`
	OldGID *uint32 `json:"old_gid,omitempty"`
	// Attributes are the names of the user.* attributes after the run.
	Attributes        []string `json:"attributes,omitempty"`
	AttributesChanged bool     `json:"attributes_changed,omitempty"`
	Size              int64    `json:"size"`
	OldSize           int64    `json:"old_size"`
	Target            string   `json:"target,omitempty"`
	OldTarget         string   `json:"old_target,omitempty"`
	LeadsOut          bool     `json:"leads_out,omitempty"` // a symbolic link, out of its tree: apply doesn't make it unasked
	HardLink          string   `json:"hard_link,omitempty"` // path of the same file
	OldLinks          uint64   `json:"old_links,omitempty"` // names that the file had, if several; the others stay as they are
	SHA256            string   `json:"sha256,omitempty"`    // by blocks; for comparison only
	Raced             bool     `json:"raced,omitempty"`
	Refused           string   `json:"refused,omitempty"` // why apply won't
}

// shown are the chosen changes in their order.
func (r *Run) shown(paths []string) ([]*Entry, error) {
	chosen, err := r.m.match(paths)
	if err != nil {
		return nil, err
	}
	var all []*Entry
	for i := range r.m.Changes {
		if chosen[i] {
			all = append(all, &r.m.Changes[i])
		}
	}
	return all, nil
}

func (r *Run) writeJSON(w io.Writer, all []*Entry, outside func(*Entry) string) error {
	in := r.Info()
	doc := diffDocument{Version: 1, Run: in.ID, Time: in.Time, Command: in.Command, Trees: in.Trees, Truncated: r.Truncated() + r.Deep(), Deep: r.Deep(), Changes: []diffChange{}}
	if doc.Command == nil {
		doc.Command = []string{}
	}
	for _, e := range all {
		doc.Summary.add(&e.Change)
	}
	return writeList(w, doc, len(all), func(i int) any {
		c := r.jsonChange(all[i])
		c.LeadsOut = outside(all[i]) != ""
		return c
	})
}

// WriteNone is what Diff writes as JSON where nothing in trees was changed.
func WriteNone(w io.Writer, trees []string) error {
	return writeList(w, diffDocument{Version: 1, Time: time.Now().UTC(), Command: []string{}, Trees: append([]string{}, trees...), Changes: []diffChange{}}, 0, nil)
}

// writeList writes a document whose last field is an empty list, with the n values
// in that list.
func writeList(w io.Writer, document any, n int, value func(i int) any) error {
	var one bytes.Buffer
	enc := json.NewEncoder(&one)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(document); err != nil {
		return err
	}
	const end = "]}\n"
	head, ok := bytes.CutSuffix(one.Bytes(), []byte(end))
	if !ok {
		return fmt.Errorf("the list isn't the last field")
	}
	out := bufio.NewWriterSize(w, 64<<10)
	_, _ = out.Write(head) // Flush has its error
	for i := range n {
		one.Reset()
		if i > 0 {
			one.WriteByte(',')
		}
		if err := enc.Encode(value(i)); err != nil {
			return err
		}
		if _, err := out.Write(bytes.TrimSuffix(one.Bytes(), []byte("\n"))); err != nil {
			return err
		}
	}
	_, _ = out.WriteString(end)
	return out.Flush()
}

func (r *Run) jsonChange(e *Entry) diffChange {
	c := diffChange{Tree: e.Tree, Path: e.Path, Kind: e.Kind, Type: e.Type, Was: e.Was, UID: e.UID, GID: e.GID, Size: e.Size, OldSize: e.OldSize,
		Target: e.Target, OldTarget: e.OldTarget, HardLink: r.m.linkOf(e), OldLinks: e.OldLinks, SetIDLeftOut: e.shownLeftOut(),
		SHA256: e.Digest, Raced: e.Base.Raced, Refused: e.Unkept,
		Attributes: slices.Sorted(maps.Keys(e.Xattrs)), AttributesChanged: e.otherAttributes()}
	if !utf8.ValidString(e.Path) {
		c.PathBytes = base64.StdEncoding.EncodeToString([]byte(e.Path))
	}
	if e.now().special() {
		c.Refused = "a " + string(e.Type) + " is never made in the real tree"
	}
	if e.Kind != Deleted {
		c.Mode = fmt.Sprintf("%04o", e.Mode)
	}
	if e.Was != Absent {
		c.OldMode = fmt.Sprintf("%04o", e.OldMode)
		c.OldUID, c.OldGID = &e.OldUID, &e.OldGID
	}
	return c
}

// lines words a run's changes for who is in a directory.
type lines struct {
	*Run
	from string // absolute; or empty: everything is told with its absolute path
	// outside says how a symbolic link leads out of its tree, or "".
	outside func(*Entry) string
}

// line is one change in a line: a letter, the name, and all else that apply would do.
func (l *lines) line(e *Entry) string {
	name := Quote(l.title(e))
	if e.Kind == Deleted {
		return "D " + name + unkept(e)
	}
	rest := mode(e) + l.annotations(e) + unkept(e)
	if l.outside(e) != "" {
		rest = " (leads out of the tree)" + rest
	}
	switch e.Kind {
	case Added:
		switch {
		case e.Type == Symlink:
			name += " → " + Quote(e.Target)
		case e.Type.special():
			name += " (" + string(e.Type) + ")"
		}
		return "A " + name + rest
	case ModeOnly:
		if rest == "" {
			rest = " (owner or attributes)"
		}
		return "m " + name + rest
	case Relinked:
		switch {
		case e.Type == Symlink && e.Was == Symlink:
			name += " → " + Quote(e.Target)
		case e.Type == Symlink:
			name += " → " + Quote(e.Target) + " (was a " + string(e.Was) + ")"
		default:
			name += " (a " + string(e.Type) + ", was a symlink)"
		}
		return "L " + name + rest
	}
	if e.Was != e.Type {
		name += " (" + string(e.Was) + " → " + string(e.Type) + ")"
	}
	return "M " + name + rest
}

// mode is what is to say about the permission bits.
func mode(e *Entry) string {
	switch {
	case e.Type == Symlink || e.Type.special() && e.Type != e.Was:
		return ""
	case e.Type == e.Was && e.Mode == e.OldMode && e.shownLeftOut():
		return fmt.Sprintf(" %04o (set-id is not applied)", e.Mode)
	case e.Type == e.Was && e.Mode != e.OldMode:
		return fmt.Sprintf(" %04o → %04o", e.OldMode, e.Mode)
	case e.Type == e.Was || usual(e.Type, e.Mode):
		return ""
	}
	return fmt.Sprintf(" %04o", e.Mode)
}

// usual: what a umask that isn't too wide makes of a new object.
func usual(t Type, mode uint32) bool {
	switch mode {
	case 0o755, 0o775, 0o700:
		return true
	case 0o644, 0o664, 0o600:
		return t == File
	}
	return false
}

// unkept marks what apply refuses, because it couldn't be kept whole.
func unkept(e *Entry) string {
	if e.Unkept == "" {
		return ""
	}
	return " (can't be applied)"
}

func (l *lines) annotations(e *Entry) (text string) {
	if e.shownLeftOut() && (e.Type != e.Was || e.Mode != e.OldMode) {
		text += " (set-id is not applied)"
	}
	if e.OldLinks > 1 {
		text += fmt.Sprintf(" (one of %d hard links; the others stay as they are)", e.OldLinks)
	}
	if link := l.m.linkOf(e); link != "" {
		text += " (hard link of " + Quote(l.place(e, link)) + ")"
	}
	if e.otherAttributes() {
		text += " (attributes)"
	}
	if os.Geteuid() != 0 {
		return text // apply sets no owner
	}
	switch {
	case e.Was == Absent && (e.UID != 0 || e.GID != 0):
		text += fmt.Sprintf(" (owner %d:%d)", e.UID, e.GID)
	case e.Was != Absent && (e.UID != e.OldUID || e.GID != e.OldGID):
		text += fmt.Sprintf(" (owner %d:%d, was %d:%d)", e.UID, e.GID, e.OldUID, e.OldGID)
	}
	return text
}

// otherAttributes: they aren't what they were.
func (e *Entry) otherAttributes() bool {
	return e.now() != Absent && digestXattrs(e.Xattrs) != e.Base.Xattrs
}

// place is a path in the tree of e as this program takes it: what is shown can be named.
func (l *lines) place(e *Entry, path string) string {
	tree := l.m.Trees[e.Tree].Path
	path = strings.TrimSuffix(tree, "/") + "/" + path
	if len(l.m.Trees) > 1 || l.from == "" {
		return path
	}
	_, below := relative(l.from, tree)
	_, above := relative(tree, l.from)
	if !below && !above {
		return path
	}
	name, err := filepath.Rel(l.from, path)
	if err != nil {
		return path
	}
	if strings.HasPrefix(name, "-") {
		return "./" + name // it would be an option
	}
	return name
}

// title is how a change's path is written.
func (l *lines) title(e *Entry) string {
	path := l.place(e, e.Path)
	if e.Type == Dir {
		path += "/"
	}
	return path
}

// Quote makes a name safe for a terminal, as git does: within double quotes with
// octal escapes if it has a quote, a backslash, or anything that doesn't print. Within
// quotes too if it could be taken for a name and what diff says of it, or has a blank at an end
// or two in a row, which nobody sees; else as it is.
func Quote(name string) string {
	quoted := name == "" || annotated(name) || blanks(name)
	const short = "\a\b\t\n\v\f\r\"\\"
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		at := -1
		if r < utf8.RuneSelf {
			at = strings.IndexByte(short, byte(r))
		}
		switch {
		case at >= 0:
			quoted = true
			b.WriteByte('\\')
			b.WriteByte(`abtnvfr"\`[at])
		case bad(name, i, r):
			quoted = true
			for _, c := range []byte(name[i : i+n]) {
				b.Write([]byte{'\\', '0' + c>>6, '0' + c>>3&7, '0' + c&7})
			}
		default:
			b.WriteString(name[i : i+n])
		}
		i += n
	}
	if !quoted {
		return name
	}
	b.WriteByte('"')
	return b.String()
}

func blanks(name string) bool {
	return name[0] == ' ' || name[len(name)-1] == ' ' || strings.Contains(name, "  ") ||
		strings.Contains(name, " /") || strings.Contains(name, "/ ")
}

// annotated: the name ends, or goes on, as a line of diff does behind a name.
func annotated(name string) bool {
	if strings.Contains(name, " → ") || strings.Contains(name, " (") {
		return true
	}
	mode := name[max(0, len(name)-5):]
	return len(mode) == 5 && mode[0] == ' ' && strings.Trim(mode[1:], "01234567") == ""
}

// bad: what a terminal may take for an order, or doesn't show.
func bad(s string, i int, r rune) bool {
	if r == utf8.RuneError {
		_, n := utf8.DecodeRuneInString(s[i:])
		return n <= 1
	}
	return r != ' ' && !unicode.IsPrint(r) || unseen.Is(r)
}

// escapes is said above a patch in which something is escaped.
const escapes = `# escaped, so not for patch(1): \xNN is a byte, \uNNNN or \UNNNNNNNN a character, \\ a backslash` + "\n"

// printable makes the lines of a patch safe for a terminal: tab and newline stay. Where
// something has to be escaped, backslashes are too, so that no other text looks the same; but
// not the one that begins a line, which is the patch's own.
func printable(text []byte) (out []byte, escaped bool) {
	if out, escaped = escape(text, false); escaped {
		out, _ = escape(text, true)
	}
	return out, escaped
}

func escape(text []byte, backslashes bool) (out []byte, escaped bool) {
	out = make([]byte, 0, len(text))
	before := rune(-1)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		bare, unseen := unprintable(r, n), hidden(before, r, text[i+n:])
		escaped = escaped || bare || unseen
		switch {
		case r == '\\' && backslashes && i > 0 && text[i-1] != '\n':
			out = append(out, `\\`...)
		case bare:
			for _, c := range text[i : i+n] {
				out = fmt.Appendf(out, `\x%02x`, c)
			}
			r = -1 // none that anything could belong to
		case unseen && r > 0xffff:
			out = fmt.Appendf(out, `\U%08x`, r)
		case unseen:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, text[i:i+n]...)
		}
		before = r
		i += n
	}
	return out, escaped
}

// unprintable: a control character that is none of the text's own, or no character at all.
func unprintable(r rune, n int) bool {
	return r == utf8.RuneError && n <= 1 || r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0
}

// hidden: a character that nobody sees, and that isn't how an emoji is written.
func hidden(before, r rune, rest []byte) bool {
	if !unseen.Is(r) {
		return false
	}
	after, _ := utf8.DecodeRune(rest)
	return !unseen.Emoji(before, r, after)
}
