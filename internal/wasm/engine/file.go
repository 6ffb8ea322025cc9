package engine

import (
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	expsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// file is a regular file or a directory that the module has open.
type file struct {
	tree *tree
	name string
	file *os.File
	dir  bool
	adds bool // writes go to its end

	listed  bool // entries are those of the directory
	entries []expsys.Dirent
}

func (f *file) errno(err error) expsys.Errno {
	if err == io.EOF {
		return 0
	}
	return f.tree.errno(f.name, err)
}

func (f *file) Stat() (sys.Stat_t, expsys.Errno) {
	info, err := f.file.Stat()
	if err != nil {
		return sys.Stat_t{}, f.errno(err)
	}
	return f.tree.described(f.name, info), 0
}

func (f *file) Dev() (uint64, expsys.Errno) {
	s, e := f.Stat()
	return s.Dev, e
}

func (f *file) Ino() (sys.Inode, expsys.Errno) {
	s, e := f.Stat()
	return s.Ino, e
}

func (f *file) IsDir() (bool, expsys.Errno) { return f.dir, 0 }

func (f *file) IsAppend() bool { return f.adds }

func (f *file) SetAppend(on bool) expsys.Errno {
	if f.dir {
		return expsys.EISDIR
	}
	if err := setAppend(f.file, on); err != nil {
		return f.errno(err)
	}
	f.adds = on
	return 0
}

func (f *file) Read(b []byte) (int, expsys.Errno) {
	if f.dir {
		return 0, expsys.EISDIR
	}
	n, err := f.file.Read(b)
	return n, f.errno(err)
}

func (f *file) Pread(b []byte, at int64) (int, expsys.Errno) {
	if f.dir {
		return 0, expsys.EISDIR
	}
	if at < 0 {
		return 0, expsys.EINVAL
	}
	n, err := f.file.ReadAt(b, at)
	return n, f.errno(err)
}

func (f *file) Write(b []byte) (int, expsys.Errno) {
	if f.dir {
		return 0, expsys.EISDIR
	}
	n, err := f.file.Write(b)
	return n, f.errno(err)
}

func (f *file) Pwrite(b []byte, at int64) (int, expsys.Errno) {
	if f.dir {
		return 0, expsys.EISDIR
	}
	if at < 0 {
		return 0, expsys.EINVAL
	}
	n, err := writeAt(f.file, b, at)
	return n, f.errno(err)
}

func (f *file) Seek(offset distance, whence int) (distance, expsys.Errno) {
	if f.dir {
		if offset != 0 || whence != io.SeekStart {
			return 0, expsys.EISDIR
		}
		f.listed = false
		return 0, 0
	}
	n, err := f.file.Seek(offset, whence)
	return n, f.errno(err)
}

// Readdir gives the next entries, in the order of their names.
func (f *file) Readdir(n int) ([]expsys.Dirent, expsys.Errno) {
	if !f.dir {
		return nil, expsys.ENOTDIR
	}
	if !f.listed {
		if e := f.list(); e != 0 {
			return nil, e
		}
	}
	if n <= 0 || n > len(f.entries) {
		n = len(f.entries)
	}
	some := f.entries[:n]
	f.entries = f.entries[n:]
	return some, 0
}

func (f *file) list() expsys.Errno {
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return f.errno(err)
	}
	all, err := f.file.ReadDir(-1)
	if err != nil {
		return f.errno(err)
	}
	f.entries, f.listed = nil, true
	for _, d := range all {
		if f.tree.only == nil || slices.Contains(f.tree.only, d.Name()) {
			e := expsys.Dirent{Name: d.Name(), Type: d.Type() & fs.ModeType}
			if e.Ino = inodeIn(f.file, d.Name()); f.tree.fixed {
				e.Ino = f.tree.number(path.Join(f.name, d.Name()))
			}
			f.entries = append(f.entries, e)
		}
	}
	slices.SortFunc(f.entries, func(a, b expsys.Dirent) int { return strings.Compare(a.Name, b.Name) })
	return 0
}

func (f *file) Truncate(size int64) expsys.Errno {
	switch {
	case f.dir:
		return expsys.EISDIR
	case size < 0:
		return expsys.EINVAL
	}
	return f.errno(f.file.Truncate(size))
}

func (f *file) Sync() expsys.Errno     { return f.errno(f.file.Sync()) }
func (f *file) Datasync() expsys.Errno { return f.Sync() }

func (f *file) Utimens(atim, mtim int64) expsys.Errno {
	return f.errno(setTimes(f.file, timeOf(atim), timeOf(mtim)))
}

func (f *file) Close() expsys.Errno { return f.errno(f.file.Close()) }

// distance keeps vet from taking Seek for io.Seeker's.
type distance = int64
