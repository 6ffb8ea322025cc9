package e2b

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/filetree"
)

// The messages of filesystem.Filesystem, in JSON.
type (
	pathRequest struct {
		Path string `json:"path"`
	}
	listDirRequest struct {
		Path  string `json:"path"`
		Depth uint32 `json:"depth"`
	}
	moveRequest struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
	}
	entryResponse struct {
		Entry *entryInfo `json:"entry"`
	}
	listDirResponse struct {
		Entries []*entryInfo `json:"entries"`
	}
	entryInfo struct {
		Name        string    `json:"name"`
		Type        string    `json:"type"`
		Path        string    `json:"path"`
		Size        int64     `json:"size,string"`
		Mode        uint32    `json:"mode"`
		Permissions string    `json:"permissions"`
		Owner       string    `json:"owner"`
		Group       string    `json:"group"`
		Modified    time.Time `json:"modifiedTime"`
		Target      *string   `json:"symlinkTarget,omitempty"`
		IsSymlink   bool      `json:"isSymlink,omitempty"`
	}
)

// resolve gives an absolute name: relative ones, and ~, are of the home directory.
func resolve(name string) (string, error) {
	if strings.ContainsRune(name, 0) || len(name) > 4096 {
		return "", &rpcError{invalidArgument, "the path has a NUL byte, or more than 4096 bytes"}
	}
	if rest, ok := strings.CutPrefix(name, "~"); ok && (rest == "" || rest[0] == '/') {
		name = Home + rest
	}
	if !path.IsAbs(name) {
		name = path.Join(Home, name)
	}
	return path.Clean(name), nil
}

const nobody = 65534

// kinds are E2B's types of files.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "FILE_TYPE_FILE"
	case mode.IsDir():
		return "FILE_TYPE_DIRECTORY"
	case mode&fs.ModeSymlink != 0:
		return "FILE_TYPE_SYMLINK"
	}
	return "FILE_TYPE_UNSPECIFIED"
}

// entry describes a file, and of a link what it leads to.
func (b *box) entry(name string) (*entryInfo, error) {
	files := b.Files()
	info, err := files.Lstat(name)
	if err != nil {
		return nil, err
	}
	mode := info.Mode()
	e := &entryInfo{Name: path.Base(name), Type: kindOf(mode), Path: name, Size: info.Size(), Mode: uint32(mode.Perm()),
		Permissions: permissions(mode), Modified: info.ModTime().UTC()}
	uid, gid := ownerOf(info)
	e.Owner, e.Group = b.name(uid), b.name(gid)
	if mode&fs.ModeSymlink != 0 {
		target, err := files.Readlink(name)
		if err != nil {
			return nil, err
		}
		e.Target, e.IsSymlink = &target, true
		if info, err := files.Stat(name); err == nil {
			e.Type = kindOf(info.Mode())
		}
	}
	return e, nil
}

// permissions are as ls has them.
func permissions(mode fs.FileMode) string {
	text := mode.Perm().String() // with a "-" first
	switch {
	case mode.IsDir():
		return "d" + text[1:]
	case mode&fs.ModeSymlink != 0:
		return "l" + text[1:]
	}
	return text
}

// name is that of a user or group: the sandbox's own, root, or a number.
func (b *box) name(id uint32) string {
	switch id {
	case b.uid:
		return "user"
	case 0:
		return "root"
	}
	return strconv.FormatUint(uint64(id), 10)
}

func (b *box) entryOf(name string) (*entryResponse, error) {
	e, err := b.entry(name)
	if err != nil {
		return nil, err
	}
	return &entryResponse{e}, nil
}

func stat(_ context.Context, c *call, in *pathRequest) (*entryResponse, error) {
	name, err := resolve(in.Path)
	if err != nil {
		return nil, err
	}
	return c.box.entryOf(name)
}

// Bounds of one list.
const (
	maxEntries = 100_000
	maxDepth   = 1000
)

func listDir(ctx context.Context, c *call, in *listDirRequest) (*listDirResponse, error) {
	name, err := resolve(in.Path)
	if err != nil {
		return nil, err
	}
	if in.Depth > maxDepth {
		return nil, &rpcError{invalidArgument, "the depth is more than 1000"}
	}
	all := &listDirResponse{Entries: []*entryInfo{}}
	return all, c.box.list(ctx, name, max(in.Depth, 1), all)
}

func (b *box) list(ctx context.Context, dir string, depth uint32, all *listDirResponse) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := b.Files().List(dir)
	if err != nil {
		return err
	}
	for _, d := range entries {
		e, err := b.entry(path.Join(dir, d.Name()))
		if err != nil {
			continue // it is gone by now, or nobody may look
		}
		if all.Entries = append(all.Entries, e); len(all.Entries) > maxEntries {
			return &rpcError{resourceExhausted, "the list has more than 100,000 entries"}
		}
		if d.IsDir() && depth > 1 {
			if err := b.list(ctx, e.Path, depth-1, all); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				return err
			}
		}
	}
	return nil
}

func makeDir(_ context.Context, c *call, in *pathRequest) (*entryResponse, error) {
	name, err := resolve(in.Path)
	if err != nil {
		return nil, err
	}
	files := c.box.Files()
	if info, err := files.Stat(name); err == nil {
		if info.IsDir() {
			return nil, &rpcError{alreadyExists, "directory already exists: " + name}
		}
		return nil, &rpcError{invalidArgument, "path already exists but it is not a directory: " + name}
	}
	if err := filetree.MakeAll(files, name); err != nil {
		return nil, err
	}
	return c.box.entryOf(name)
}

func move(_ context.Context, c *call, in *moveRequest) (*entryResponse, error) {
	from, err := resolve(in.Source)
	if err != nil {
		return nil, err
	}
	to, err := resolve(in.Destination)
	if err != nil {
		return nil, err
	}
	files := c.box.Files()
	if _, err := files.Lstat(from); err != nil {
		return nil, err
	}
	if err := filetree.MakeParents(files, to); err != nil {
		return nil, err
	}
	if err := files.Rename(from, to); err != nil {
		return nil, err
	}
	return c.box.entryOf(to)
}

// remove removes a file, or a directory with what is below it. What isn't there is removed.
func remove(_ context.Context, c *call, in *pathRequest) (*empty, error) {
	name, err := resolve(in.Path)
	if err != nil {
		return nil, err
	}
	if err := filetree.RemoveAll(c.box.Files(), name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &empty{}, nil
}

// eventTypes are E2B's.
var eventTypes = map[backend.FileOp]string{
	backend.FileCreated: "EVENT_TYPE_CREATE", backend.FileWritten: "EVENT_TYPE_WRITE", backend.FileRemoved: "EVENT_TYPE_REMOVE",
	backend.FileRenamed: "EVENT_TYPE_RENAME", backend.FileChmod: "EVENT_TYPE_CHMOD",
}
