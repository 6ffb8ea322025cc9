package changes

import (
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"slices"
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
	return writeList(w, doc, len(all), func(i int) (any, error) {
		c := r.jsonChange(all[i])
		c.LeadsOut = outside(all[i]) != ""
		return c, nil
	})
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
