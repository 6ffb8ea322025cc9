package gitindex

import (
	"encoding/hex"
	"errors"
	"strings"
)

// MaxSize is that of the largest index that is read: some 600,000 files.
const MaxSize = 64 << 20

// The sizes of object names.
const (
	SHA1   = 20
	SHA256 = 32
)

// ErrBroken is an index that git doesn't read, or not as it stands here.
var ErrBroken = errors.New("the index is broken, or of a form that is not known")

// Index is what the index of one work tree says.
type Index struct {
	// Gitlinks are names in the tree: relative, clean, and not in a git directory.
	Gitlinks []string
	// Sparse are directories that stand for all that is in them. What that is, trees of
	// the repository say; they can name gitlinks, too.
	Sparse []string
}

// Read reads the index of a git directory, of which open gives files by their names. hash is
// the size of object names. What it finds before an error is given with it.
func Read(hash int, open func(name string) (string, error)) (Index, error) {
	text, err := open("index")
	if err != nil {
		return Index{}, err
	}
	p := parser{text: text, hash: hash}
	if err = p.parse(); err != nil || p.base == "" {
		return p.found, err
	}
	if text, err = open("sharedindex." + p.base); err != nil {
		return p.found, errors.Join(ErrBroken, err) // without it git doesn't read the index either
	}
	// Which of its entries the index deletes doesn't matter: what git sees is among them. One
	// that is replaced has no name in the index, and could be any.
	shared := parser{text: text, hash: hash, all: p.unnamed}
	err = shared.parse()
	p.found.Gitlinks = append(p.found.Gitlinks, shared.found.Gitlinks...)
	p.found.Sparse = append(p.found.Sparse, shared.found.Sparse...)
	return p.found, err
}

const (
	headerSize = 12
	statSize   = 40 // of an entry, before the object name
	modeAt     = 24

	modeMask    = 0o170000
	modeGitlink = 0o160000
	modeDir     = 0o040000

	flagExtended = 0x4000
	flagsKnown   = 0x6000 // of the extended ones
	nameMask     = 0xfff
)

type parser struct {
	text    string
	hash    int
	all     bool // every entry counts as a gitlink
	version uint32
	count   uint32
	found   Index
	base    string // of a split index: the name of the shared one, in hex
	split   bool   // there was such an extension, and a table of offsets
	tabled  bool
	unnamed bool // a gitlink has its name from the shared index
}

func (p *parser) parse() error {
	if len(p.text) < headerSize+p.hash || p.text[:4] != "DIRC" {
		return ErrBroken
	}
	p.version, p.count = be32(p.text[4:]), be32(p.text[8:])
	if p.version < 2 || p.version > 4 {
		return ErrBroken
	}
	end, ok := p.entries(p.take)
	if !ok || !p.extensions(end) || p.unnamed && p.base == "" {
		return ErrBroken
	}
	return nil
}

// entries goes through all of them, and gives where they end.
func (p *parser) entries(each func(e *entry) bool) (end int, ok bool) {
	e := entry{next: headerSize}
	for range p.count {
		if !p.entry(&e) || !each(&e) {
			return 0, false
		}
	}
	return e.next, true
}

// entry is one of them, and where it stands.
type entry struct {
	at, next int
	mode     uint32
	name     []byte // good until the next one is read
	whole    bool   // it takes nothing from the name before
}

// entry reads what comes after e into e.
func (p *parser) entry(e *entry) bool {
	e.at = e.next
	body := p.text[:len(p.text)-p.hash]
	flagsAt := e.at + statSize + p.hash
	if flagsAt+2 > len(body) {
		return false
	}
	e.mode = be32(body[e.at+modeAt:])
	flags, nameAt := be16(body[flagsAt:]), flagsAt+2
	if flags&flagExtended != 0 {
		if nameAt += 2; nameAt > len(body) || be16(body[flagsAt+2:])&^flagsKnown != 0 {
			return false
		}
	}
	kept := 0
	if p.version == 4 {
		strip, size := varint(body[nameAt:])
		if size == 0 || strip > uint64(len(e.name)) {
			return false
		}
		nameAt += size
		kept = len(e.name) - int(strip)
	}
	e.whole = kept == 0
	size := strings.IndexByte(body[nameAt:], 0)
	if size < 0 {
		return false
	}
	// git goes by the length in the flags where it fits in there.
	if n := int(flags & nameMask); n != min(kept+size, nameMask) {
		return false
	}
	e.name = append(e.name[:kept], body[nameAt:nameAt+size]...)
	e.next = nameAt + size + 1
	if p.version < 4 {
		e.next = e.at + (nameAt-e.at+size+8)&^7
	}
	return e.next <= len(body)
}

// take notes an entry that matters.
func (p *parser) take(e *entry) bool {
	dir := e.mode == modeDir
	if !dir && !p.all && e.mode&modeMask != modeGitlink {
		return true
	}
	name := string(e.name)
	if dir {
		name = strings.TrimSuffix(name, "/")
	}
	switch {
	case name == "" && !dir:
		p.unnamed = true
	case !proper(name):
		return p.all && e.mode&modeMask != modeGitlink
	case dir:
		p.found.Sparse = append(p.found.Sparse, name)
	default:
		p.found.Gitlinks = append(p.found.Gitlinks, name)
	}
	return true
}

// proper: git writes such a name, and it leads nowhere but into the tree. It reads others.
func proper(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || strings.EqualFold(part, ".git") {
			return false
		}
	}
	return true
}

// extensions goes through what comes after the entries.
func (p *parser) extensions(start int) bool {
	body := p.text[:len(p.text)-p.hash]
	// Where git looks for the end of the entries, whatever it is a part of.
	if last := len(body) - 8 - 4 - p.hash; last >= start && body[last:last+4] == "EOIE" &&
		be32(body[last+4:]) == uint32(4+p.hash) && uint64(be32(body[last+8:])) != uint64(start) {
		return false
	}
	rest := body[start:]
	for len(rest) >= 8 {
		name, size := rest[:4], uint64(be32(rest[4:]))
		if rest = rest[8:]; size > uint64(len(rest)) {
			return false
		}
		if !p.extension(name, rest[:size]) {
			return false
		}
		rest = rest[size:]
	}
	return len(rest) == 0
}

func (p *parser) extension(name, text string) bool {
	switch name {
	case "link":
		if p.split || len(text) < p.hash {
			return false
		}
		p.split = true
		if id := text[:p.hash]; strings.Trim(id, "\x00") != "" {
			p.base = hex.EncodeToString([]byte(id))
		}
		return true
	case "sdir":
		return true
	case "IEOT":
		if p.tabled {
			return false
		}
		p.tabled = true
		return p.blocks(text)
	}
	return name[0] >= 'A' && name[0] <= 'Z' // of others git says whether it can go without
}

// blocks holds the table that several threads read the entries by against the entries.
func (p *parser) blocks(table string) bool {
	if len(table) < 4 || be32(table) != 1 || len(table)%8 != 4 {
		return false
	}
	table = table[4:]
	left := uint32(0) // entries of the block
	_, ok := p.entries(func(e *entry) bool {
		for ; left == 0; table = table[8:] {
			if len(table) == 0 || uint64(be32(table)) != uint64(e.at) || !e.whole {
				return false
			}
			left = be32(table[4:])
		}
		left--
		return true
	})
	return ok && left == 0 && table == ""
}

func be16(s string) uint16 { return uint16(s[0])<<8 | uint16(s[1]) }

func be32(s string) uint32 { return uint32(be16(s))<<16 | uint32(be16(s[2:])) }

// varint is git's: each further byte counts from where the shorter ones end.
func varint(s string) (n uint64, size int) {
	for size < len(s) && size < 5 {
		c := s[size]
		n |= uint64(c & 0x7f)
		if size++; c&0x80 == 0 {
			return n, size
		}
		n = (n + 1) << 7
	}
	return 0, 0
}
