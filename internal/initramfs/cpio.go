package initramfs

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// Archive writes an initramfs: the "newc" format, of which the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst has the whole. The first error is that of End.
type Archive struct {
	w     io.Writer
	inode int
	made  map[string]bool // directories
	err   error
}

// To is an archive that is written to w.
func To(w io.Writer) *Archive { return &Archive{w: w} }

const (
	modeDir  = 0o040000
	modeFile = 0o100000
)

// File adds a file, and the directories above it.
func (a *Archive) File(name string, mode uint32, content []byte) {
	for i, r := range name {
		if r == '/' {
			a.Dir(name[:i])
		}
	}
	a.entry(path.Clean(name), modeFile|mode, content)
}

// Dir adds a directory, once.
func (a *Archive) Dir(name string) {
	if a.made == nil {
		a.made = map[string]bool{}
	}
	if name != "" && !a.made[name] {
		a.made[name] = true
		a.entry(name, modeDir|0o755, nil)
	}
}

// End writes what the last entry is followed by.
func (a *Archive) End() error {
	a.entry("TRAILER!!!", 0, nil)
	return a.err
}

// entry writes the header, the name and the content, each padded to four bytes.
// Everything belongs to root, and has no time.
func (a *Archive) entry(name string, mode uint32, content []byte) {
	a.inode++
	const links = 1
	fields := []int{a.inode, int(mode), 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0}
	var header strings.Builder
	header.WriteString("070701")
	for _, f := range fields {
		fmt.Fprintf(&header, "%08X", f)
	}
	header.WriteString(name + "\x00")
	a.write([]byte(header.String()))
	a.write(content)
}

func (a *Archive) write(b []byte) {
	for _, part := range [][]byte{b, make([]byte, -len(b)&3)} {
		if a.err == nil {
			_, a.err = a.w.Write(part)
		}
	}
}
