package snapshot

import (
	"errors"
	"os"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/hint"
)

// Place is a directory of a sandbox that is to be written down.
type Place struct {
	Path string // absolute, as seen inside
	// Dir is the upper directory of an overlay, or a private place, which is the same without a lower one. It is open
	// for reading, and nobody writes to it meanwhile.
	Dir int
}

// Kind is what is below a place.
type Kind string

const (
	Overlay Kind = "overlay" // a tree of the caller's, at the same path
	Private Kind = "private" // nothing
)

// PlaceInfo is one of the places that a sandbox had.
type PlaceInfo struct {
	Path string `json:"path"`
	Kind Kind   `json:"kind"`
}

// Meta is what is known of a sandbox beside its files.
type Meta struct {
	// Parent is the ID of the snapshot whose layers are below this one's, or empty. It may be gone: its layers are not.
	Parent       string      `json:"parent,omitempty"`
	Created      time.Time   `json:"-"`
	PolicyDigest string      `json:"policy_digest,omitempty"`
	Places       []PlaceInfo `json:"places"`
}

// Left counts what a layer can't hold, and was left out.
type Left struct {
	FIFOs   int `json:"fifos,omitempty"`
	Sockets int `json:"sockets,omitempty"`
	Devices int `json:"devices,omitempty"`
}

// Info is a snapshot.
type Info struct {
	ID    string
	Names []string
	Meta
	Left
	Layers []string // their digests in hexadecimal, the bottom first
	Size   int64    // bytes of what it is kept in, of which others may share some
	Err    error    // in a list: it can't be read
}

// MachinePlace is the place that a machine is written down in.
const MachinePlace = "/run/confine-vm/state"

// Holds says what is in it: "files", or "memory" where that of a machine with its processes is one of them.
func (in *Info) Holds() string {
	for _, p := range in.Places {
		if p.Path == MachinePlace {
			return "memory"
		}
	}
	return "files"
}

// Tree is a layer in the form that overlayfs takes as a lower one, in a user namespace and with "userxattr". A place at
// /a/b is Path+"/a/b", which is missing if the layer has nothing there.
type Tree struct {
	Path     string
	Dev, Ino uint64
	// Dir is the directory, open for reading. As long as it is, in whatever process, nobody removes the tree.
	Dir *os.File
}

// CloseTrees lets go of trees.
func CloseTrees(trees []Tree) {
	for _, t := range trees {
		_ = t.Dir.Close()
	}
}

// Limits bound a snapshot. 0: the default.
type Limits struct {
	Bytes  int64 // of its blobs, and once more of the files in them, holes not counted; 32 GiB
	Names  int   // of files and directories in all layers; 1,048,576. A long path counts for several.
	Layers int   // 128
	// ID is what is imported; empty: anything.
	ID string
}

const maxLayers = 128

func (l Limits) orDefault() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 32 << 30
	}
	if l.Names <= 0 {
		l.Names = 1 << 20
	}
	if l.Layers <= 0 || l.Layers > maxLayers {
		l.Layers = maxLayers
	}
	return l
}

var (
	// ErrBundle: what was to be imported isn't what Export writes, or is more than a limit.
	ErrBundle = errors.New("the bundle is refused")
	// ErrOther: what was to be imported isn't the snapshot that was asked for.
	ErrOther = errors.New("the bundle is that of another snapshot")
	// ErrDamaged: a part of a snapshot is missing, or isn't what its digest says.
	ErrDamaged = errors.New("the snapshot is damaged")
	// ErrTaken: a name is that of another snapshot.
	ErrTaken = errors.New("is the name of another snapshot")
	// ErrBusy: somebody else changes the store, and was waited for.
	ErrBusy = hint.New("another process changes the store of snapshots", "try again when it has ended")
	// ErrTooLarge: more than Limits allow.
	ErrTooLarge = errors.New("it is more than the limit of a snapshot")
	// ErrLayers: a layer more than fits.
	ErrLayers = hint.New("it has too many layers", "take it of a sandbox that began with an earlier snapshot, or with none")

	errForeign    = errors.New("somebody else owns it or can write to it")
	errBadName    = hint.New("it takes letters, digits and ._- after a letter or digit, at most 64, and can't look like an ID", "choose another name")
	errNoWhiteout = hint.New("this file system takes neither a device 0/0 nor, with this kernel, an attribute for what a layer deletes",
		"keep snapshots on another file system than that of a container, or use Linux 6.7 or later")
)

// UnfitError is a file that can't be in a snapshot.
type UnfitError struct {
	Msg string
	Err error // what the store's file system said, if it was that
}

func (e *UnfitError) Error() string {
	if e.Err != nil {
		return e.Msg + ": " + e.Err.Error()
	}
	return e.Msg
}

func (e *UnfitError) Unwrap() error { return e.Err }

// ValidID says whether id has the form of one: the SHA-256 of a manifest, in hexadecimal.
func ValidID(id string) bool {
	return len(id) == 64 && strings.Trim(id, "0123456789abcdef") == ""
}

// ValidName says whether name can be one.
func ValidName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return name != "" && len(name) <= 64 && strings.IndexByte(letters, name[0]) >= 0 && strings.Trim(name, letters+"._-") == "" && !ValidID(name)
}
