package snapshot

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/linux"
)

// What layers say about names of the layers below.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

const (
	block = 512
	// maxFragments bounds the pieces of data that a sparse file is written as: the list has to fit into a header.
	maxFragments = 8192
	// maxXattrs bounds the attributes of one object, for the same reason.
	maxXattrs = 256 << 10
	// maxDirXattrs bounds those of all directories of a layer, which come last when it is unpacked.
	maxDirXattrs = 32 << 20
	// maxFile is more than a file can be on many file systems; one that can't be unpacked is no part of a snapshot.
	maxFile = 8 << 40
)

// extent is a piece of a file that is no hole.
type extent struct{ at, size int64 }

// entry is one of a layer.
type entry struct {
	name     string // below "/"
	kind     byte   // tar.TypeReg, TypeDir, TypeSymlink, TypeLink
	mode     uint32 // 07777
	uid, gid uint32
	mtime    int64 // nanoseconds since 1970
	link     string
	xattrs   map[string][]byte
	size     int64    // with its holes
	data     []extent // in order; of a regular file
}

// attributes is the size of them.
func (e *entry) attributes() (n int) {
	for name, value := range e.xattrs {
		n += len(name) + len(value)
	}
	return n
}

// stored is how many bytes of the file are in the archive.
func (e *entry) stored() (n int64) {
	for _, d := range e.data {
		n += d.size
	}
	return n
}

// sparse: it has holes.
func (e *entry) sparse() bool { return e.kind == tar.TypeReg && e.stored() != e.size }

// Records of PAX. Package archive/tar neither writes files with holes nor skips them as it reads.
const (
	paxXattr       = "SCHILY.xattr."
	paxSparse      = "GNU.sparse."
	paxSparseMap   = paxSparse + "map"
	paxSparseSize  = paxSparse + "size"
	paxSparseCount = paxSparse + "numblocks"
)

// header is what stands before the data of an entry. The same entry gives the same bytes.
func (e *entry) header() ([]byte, error) {
	if e.name == "" || strings.IndexByte(e.name+e.link, 0) >= 0 {
		return nil, errors.New("a name that no archive holds")
	}
	records := map[string]string{}
	for name, value := range e.xattrs {
		records[paxXattr+escapeXattr(name)] = string(value)
	}
	name := e.name
	if e.kind == tar.TypeDir {
		name += "/"
	}
	h := &ustar{typ: e.kind, name: name, link: e.link, mode: e.mode, size: e.stored()}
	if len(name) > len(h.block[:100]) || !ascii(name) {
		records["path"] = name
	}
	if len(e.link) > 100 || !ascii(e.link) {
		records["linkpath"] = e.link
	}
	h.number(records, "uid", &h.uid, int64(e.uid), 7)
	h.number(records, "gid", &h.gid, int64(e.gid), 7)
	h.number(records, "size", &h.size, h.size, 11)
	seconds, rest := e.mtime/1e9, e.mtime%1e9
	if rest < 0 {
		seconds, rest = seconds-1, rest+1e9
	}
	if h.mtime = seconds; rest != 0 || seconds < 0 || seconds >= 1<<33 {
		h.mtime = min(max(seconds, 0), 1<<33-1)
		records["mtime"] = paxTime(seconds, rest)
	}
	if e.sparse() {
		var list strings.Builder
		for i, d := range e.data {
			if i > 0 {
				list.WriteByte(',')
			}
			fmt.Fprintf(&list, "%d,%d", d.at, d.size)
		}
		if len(e.data) == 0 {
			fmt.Fprintf(&list, "%d,0", e.size)
		}
		records[paxSparseMap] = list.String()
		records[paxSparseSize] = strconv.FormatInt(e.size, 10)
		records[paxSparseCount] = strconv.Itoa(max(1, len(e.data)))
	}
	var out []byte
	if len(records) > 0 {
		var text []byte
		for _, k := range slices.Sorted(maps.Keys(records)) {
			text = appendRecord(text, k, records[k])
		}
		x := &ustar{typ: tar.TypeXHeader, name: "PaxHeaders", mode: 0o644, size: int64(len(text))}
		out = append(append(out, x.bytes()...), text...)
		out = append(out, make([]byte, padding(int64(len(text))))...)
	}
	return append(out, h.bytes()...), nil
}

// padding is what follows n bytes up to the end of a block.
func padding(n int64) int64 { return -n & (block - 1) }

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// appendRecord adds "LENGTH KEY=VALUE\n", where LENGTH counts itself.
func appendRecord(to []byte, k, v string) []byte {
	n := len(k) + len(v) + len(" =\n")
	size := n + len(strconv.Itoa(n))
	size = n + len(strconv.Itoa(size))
	to = strconv.AppendInt(to, int64(size), 10)
	to = append(to, ' ')
	to = append(to, k...)
	to = append(to, '=')
	to = append(to, v...)
	return append(to, '\n')
}

// paxTime writes a time that may be before 1970.
func paxTime(seconds, nanoseconds int64) string {
	sign := ""
	if seconds < 0 {
		sign = "-"
		seconds, nanoseconds = -seconds, -nanoseconds
		if nanoseconds < 0 {
			seconds, nanoseconds = seconds-1, nanoseconds+1e9
		}
	}
	return fmt.Sprintf("%s%d.%09d", sign, seconds, nanoseconds)
}

// The name of an attribute can have a "=", which ends the key of a record: GNU tar writes it so.
var (
	xattrEscapes   = strings.NewReplacer("%", "%25", "=", "%3D")
	xattrUnescapes = strings.NewReplacer("%25", "%", "%3D", "=")
)

func escapeXattr(name string) string   { return xattrEscapes.Replace(name) }
func unescapeXattr(name string) string { return xattrUnescapes.Replace(name) }

// ustar is the fixed part of a header.
type ustar struct {
	typ        byte
	name, link string // the first 100 bytes of
	mode       uint32
	uid, gid   int64
	size       int64
	mtime      int64
	block      [block]byte
}

// number sets a field, or makes a record of what it doesn't hold.
func (h *ustar) number(records map[string]string, key string, field *int64, n int64, digits int) {
	*field = n
	if n >= 1<<(3*digits) {
		*field = 0
		records[key] = strconv.FormatInt(n, 10)
	}
}

func (h *ustar) bytes() []byte {
	b := h.block[:]
	octal := func(at, size int, n int64) { copy(b[at:], fmt.Sprintf("%0*o", size-1, n)) }
	copy(b[:100], h.name)
	octal(100, 8, int64(h.mode))
	octal(108, 8, h.uid)
	octal(116, 8, h.gid)
	octal(124, 12, h.size)
	octal(136, 12, h.mtime)
	copy(b[148:], "        ")
	b[156] = h.typ
	copy(b[157:257], h.link)
	copy(b[257:], "ustar\x0000")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

// readEntry reads the header of the next entry of a layer, and nothing after it; io.EOF at the end. The data and
// their padding follow. It takes what is written here, and refuses the rest.
func readEntry(from io.Reader) (*entry, error) {
	h, err := tar.NewReader(from).Next() // it reads whole blocks, and none ahead
	if err != nil {
		return nil, err
	}
	e := &entry{name: h.Name, kind: h.Typeflag, mode: uint32(h.Mode), link: h.Linkname, size: h.Size}
	if e.kind == tar.TypeDir {
		e.name = strings.TrimSuffix(e.name, "/")
	}
	dir, base := path.Split(e.name)
	about := dir + strings.TrimPrefix(base, whiteout) // what a whiteout is about can have the longest name
	if base == opaque {
		about = strings.TrimSuffix(dir, "/")
	}
	if !linux.ValidPath(about) {
		return nil, fmt.Errorf("%.200q: a name that leads elsewhere, or can't be one", h.Name)
	}
	if err := e.parse(h); err != nil {
		return nil, fmt.Errorf("%.200q: %w", h.Name, err)
	}
	return e, nil
}

func (e *entry) parse(h *tar.Header) error {
	switch e.kind {
	case tar.TypeReg:
	case tar.TypeDir, tar.TypeSymlink, tar.TypeLink:
		if h.Size != 0 {
			return errors.New("data where there are none")
		}
	default:
		return fmt.Errorf("it is of the kind %q, which is in no snapshot", e.kind)
	}
	if (e.link != "") != (e.kind == tar.TypeSymlink || e.kind == tar.TypeLink) || len(e.link) > linux.MaxPath || strings.IndexByte(e.link, 0) >= 0 {
		return fmt.Errorf("the target %.200q", e.link)
	}
	if e.kind == tar.TypeLink && !linux.ValidPath(e.link) {
		return fmt.Errorf("a hard link to %.200q, which leads elsewhere", e.link)
	}
	if h.Mode < 0 || h.Mode > 0o7777 || int64(h.Uid) < 0 || int64(h.Gid) < 0 || int64(h.Uid) > 1<<32-2 || int64(h.Gid) > 1<<32-2 {
		return errors.New("a mode or an owner that can't be")
	}
	e.uid, e.gid = uint32(h.Uid), uint32(h.Gid)
	if e.mtime = h.ModTime.UnixNano(); !time.Unix(0, e.mtime).Equal(h.ModTime) {
		return errors.New("a time that can't be")
	}
	if e.size < 0 || e.size > maxFile {
		return fmt.Errorf("a file of %d bytes: %w", e.size, ErrTooLarge)
	}
	attributes := 0
	for k, v := range h.PAXRecords {
		name, ok := strings.CutPrefix(k, paxXattr)
		if name = unescapeXattr(name); !ok {
			continue
		}
		if !linux.OwnXattr(name) || e.kind == tar.TypeSymlink || e.kind == tar.TypeLink {
			return fmt.Errorf("the attribute %.100q", name)
		}
		if attributes += len(name) + len(v); attributes > maxXattrs {
			return fmt.Errorf("more than %d bytes of attributes", maxXattrs)
		}
		if e.xattrs == nil {
			e.xattrs = map[string][]byte{}
		}
		e.xattrs[name] = []byte(v)
	}
	if e.kind != tar.TypeReg {
		return nil
	}
	return e.parseData(h.PAXRecords)
}

// parseData finds the pieces of a file.
func (e *entry) parseData(records map[string]string) error {
	holes := false
	for k := range records {
		switch {
		case k == paxSparseMap || k == paxSparseSize || k == paxSparseCount:
			holes = true
		case strings.HasPrefix(k, paxSparse):
			return fmt.Errorf("holes in another form, by %.100q", k)
		}
	}
	if !holes {
		if e.size > 0 {
			e.data = []extent{{0, e.size}}
		}
		return nil
	}
	if records[paxSparseMap] == "" || records[paxSparseSize] != strconv.FormatInt(e.size, 10) {
		return errors.New("holes in another form")
	}
	end := int64(0)
	var numbers []string
	if strings.Count(records[paxSparseMap], ",") >= 2*maxFragments {
		return fmt.Errorf("more than %d pieces", maxFragments)
	}
	numbers = strings.Split(records[paxSparseMap], ",")
	if len(numbers)%2 != 0 || records[paxSparseCount] != strconv.Itoa(len(numbers)/2) {
		return errors.New("a list of pieces that is cut")
	}
	for i := 0; i < len(numbers); i += 2 {
		at, err := strconv.ParseUint(numbers[i], 10, 62)
		size, err2 := strconv.ParseUint(numbers[i+1], 10, 62)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		d := extent{int64(at), int64(size)}
		if d.at < end || d.at > e.size || d.size > e.size-d.at {
			return errors.New("pieces that overlap, or lie behind the end")
		}
		if end = d.at + d.size; d.size > 0 {
			e.data = append(e.data, d)
		}
	}
	return nil
}
