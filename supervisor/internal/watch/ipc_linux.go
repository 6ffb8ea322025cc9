package watch

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// ipcTables are handoff.IPCTables of the run's own IPC namespace. What they show is memory
// that no process has to have mapped: a segment that nobody has attached, semaphores,
// messages. What is attached of a segment is in the PSS of a process, too, as shared memory.
type ipcTables struct {
	fds []int
	buf []byte
}

// What the kernel takes for each, by the columns of the tables.
const (
	semaphoreSize = 64   // struct sem is as large as a line of the cache
	ipcObjectSize = 1024 // a table's entry with all that belongs to it
	messageSize   = 64   // besides its text
)

// ipcCosts says for each table which columns count, and how much for one.
var ipcCosts = [...][]struct{ column, bytes int64 }{
	{{14, 1}, {15, 1}},         // shm: rss, swap
	{{3, semaphoreSize}},       // sem: nsems
	{{3, 1}, {4, messageSize}}, // msg: cbytes, qnum
}

// used is what all of it takes now.
func (t *ipcTables) used() (sum int64) {
	for i, fd := range t.fds {
		sum += ipcMemory(t.read(fd), i)
	}
	return sum
}

// read is the whole of a table; valid until the next.
func (t *ipcTables) read(fd int) []byte {
	for n := 0; ; {
		if n == len(t.buf) {
			t.buf = append(t.buf, make([]byte, len(t.buf)+4096)...)
		}
		got, err := linux.Again(func() (int, error) { return unix.Pread(fd, t.buf[n:], int64(n)) })
		if err != nil || got <= 0 {
			return t.buf[:n]
		}
		n += got
	}
}

// ipcMemory adds up one table.
func ipcMemory(text []byte, table int) (sum int64) {
	_, rest, _ := bytes.Cut(text, []byte("\n")) // the names of the columns
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		sum += ipcObjectSize
		column := int64(0)
		for field := range bytes.FieldsSeq(line) {
			for _, c := range ipcCosts[table] {
				if c.column == column {
					n, _ := strconv.ParseInt(string(field), 10, 64)
					sum += min(max(n, 0), 1<<50) * c.bytes
				}
			}
			column++
		}
	}
	return sum
}
