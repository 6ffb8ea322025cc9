package main

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// cpio writes an initramfs: the "newc" format, of which the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst has the whole.
type cpio struct {
	w     io.Writer
	inode int
	made  map[string]bool // directories
	err   error
}

const (
	modeDir  = 0o040000
	modeFile = 0o100000
)

// file adds a file, and the directories above it.
func (c *cpio) file(name string, mode uint32, content []byte) {
	for i, r := range name {
		if r == '/' {
			c.dir(name[:i])
		}
	}
	c.entry(path.Clean(name), modeFile|mode, content)
}

func (c *cpio) dir(name string) {
	if c.made == nil {
		c.made = map[string]bool{}
	}
	if name != "" && !c.made[name] {
		c.made[name] = true
		c.entry(name, modeDir|0o755, nil)
	}
}

// end is what the last entry is followed by.
func (c *cpio) end() error {
	c.entry("TRAILER!!!", 0, nil)
	return c.err
}

// entry writes the header, the name and the content, each padded to four bytes.
// Everything belongs to root, and has no time.
func (c *cpio) entry(name string, mode uint32, content []byte) {
	c.inode++
	const links = 1
	fields := []int{c.inode, int(mode), 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0}
	var header strings.Builder
	header.WriteString("070701")
	for _, f := range fields {
		fmt.Fprintf(&header, "%08X", f)
	}
	header.WriteString(name + "\x00")
	c.write([]byte(header.String()))
	c.write(content)
}

func (c *cpio) write(b []byte) {
	for _, part := range [][]byte{b, make([]byte, -len(b)&3)} {
		if c.err == nil {
			_, c.err = c.w.Write(part)
		}
	}
}
