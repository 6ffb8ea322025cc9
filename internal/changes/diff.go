package changes

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

// DiffOptions choose what Diff writes: one line for each path, if nothing else.
//
//	A path                  added
//	M path                  modified, or of another type: (dir → file)
//	D path                  deleted
//	m path 0644 → 0755      mode; also owner or attributes
//	L path → target         symbolic link
//
// A directory ends in "/". With several trees the paths are absolute.
type DiffOptions struct {
	Patch bool
	JSON  bool
	// Largest is the size of a file, on either side, that a patch shows; 0: 1 MiB.
	Largest int64
	// Total bounds a patch; the rest is counted. 0: 64 MiB.
	Total int64
}

func (o DiffOptions) orDefault() DiffOptions {
	if o.Largest == 0 {
		o.Largest = 1 << 20
	}
	if o.Total == 0 {
		o.Total = 64 << 20
	}
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
	Size      int64  `json:"size"`
	OldSize   int64  `json:"old_size"`
	Target    string `json:"target,omitempty"`
	OldTarget string `json:"old_target,omitempty"`
	HardLink  string `json:"hard_link,omitempty"` // path of the same file
	SHA256    string `json:"sha256,omitempty"`    // by blocks; for comparison only
	Raced     bool   `json:"raced,omitempty"`
	Refused   string `json:"refused,omitempty"` // why apply won't
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

func (r *Run) writeJSON(w io.Writer, all []*Entry) error {
	in := r.Info()
	doc := diffDocument{Version: 1, Run: in.ID, Time: in.Time, Command: in.Command, Trees: in.Trees, Truncated: r.Truncated(), Changes: []diffChange{}}
	if doc.Command == nil {
		doc.Command = []string{}
	}
	for _, e := range all {
		doc.Summary.add(&e.Change)
		c := diffChange{Tree: e.Tree, Path: e.Path, Kind: e.Kind, Type: e.Type, Was: e.Was, Size: e.Size, OldSize: e.OldSize,
			Target: e.Target, OldTarget: e.OldTarget, HardLink: e.Link, SHA256: e.Digest, Raced: e.Base.Raced, Refused: e.Unkept}
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
		}
		doc.Changes = append(doc.Changes, c)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(doc)
}

// title is how a change's path is written.
func (r *Run) title(e *Entry) string {
	path := e.Path
	if len(r.m.Trees) > 1 {
		path = join(r.m.Trees[e.Tree].Path, path)
	}
	if e.Type == Dir {
		path += "/"
	}
	return path
}

func (r *Run) line(e *Entry) string {
	name := Quote(r.title(e))
	switch e.Kind {
	case Added:
		switch {
		case e.Type == Symlink:
			name += " → " + Quote(e.Target)
		case e.Type.special():
			name += " (" + string(e.Type) + ")"
		case e.Link != "":
			name += " (hard link of " + Quote(e.Link) + ")"
		}
		return "A " + name
	case Deleted:
		return "D " + name
	case ModeOnly:
		if e.Mode == e.OldMode {
			return "m " + name + " (owner or attributes)"
		}
		return fmt.Sprintf("m %s %04o → %04o", name, e.OldMode, e.Mode)
	case Relinked:
		switch {
		case e.Type == Symlink && e.Was == Symlink:
			return "L " + name + " → " + Quote(e.Target)
		case e.Type == Symlink:
			return "L " + name + " → " + Quote(e.Target) + " (was a " + string(e.Was) + ")"
		}
		return "L " + name + " (a " + string(e.Type) + ", was a symlink)"
	}
	if e.Was != e.Type {
		name += " (" + string(e.Was) + " → " + string(e.Type) + ")"
	}
	if e.Mode != e.OldMode && e.Was == e.Type {
		name += fmt.Sprintf(" %04o → %04o", e.OldMode, e.Mode)
	}
	return "M " + name
}
