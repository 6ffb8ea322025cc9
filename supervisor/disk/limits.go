package disk

import "fmt"

// Limits are what a run may add to its writable trees. Zero means no limit.
type Limits struct {
	Bytes int64 // allocated blocks
	Files int64 // inodes
}

// Source is where the figures of Usage come from.
type Source string

const (
	// FromWalk: the trees themselves.
	FromWalk Source = "walk"
	// FromStatfs: the file systems that the trees are in, and so everybody who
	// writes to them, because the trees have too many entries.
	FromStatfs Source = "statfs"
	// FromBoth: the trees, and the file systems because a directory was made unreadable.
	FromBoth Source = "walk+statfs"
)

// Usage is what was added so far. Less than nothing: more was removed.
type Usage struct {
	Bytes, Files         int64
	BytesPeak, FilesPeak int64 // never below zero; at least this much
	// Unseen is by how many bytes the file systems have lost more than was added to the
	// trees: by others, or in removed files that are in use without a descriptor of a process.
	Unseen int64
	Source Source // "": no figures yet
}

// Details are for the ledger.
func (s Source) Details() string {
	switch s {
	case FromStatfs:
		return fmt.Sprintf("more than %d entries: what the file systems lost, whoever wrote it", MaxEntries)
	case FromBoth:
		return "growth of the writable trees; unreadable directories, so what the file systems lost if that is more"
	}
	return "growth of the writable trees, and removed files that a process has open, sampled"
}

// amount is of both that can be limited.
type amount struct{ bytes, files int64 }

func (a amount) minus(b amount) amount { return amount{a.bytes - b.bytes, a.files - b.files} }
func (a amount) plus(b amount) amount  { return amount{a.bytes + b.bytes, a.files + b.files} }

func most(a, b amount) amount {
	return amount{max(a.bytes, b.bytes), max(a.files, b.files)}
}

// beyond: a is above times as much as limit in something that is limited.
func (a amount) beyond(limit amount, times int64) bool {
	return limit.bytes > 0 && a.bytes/times > limit.bytes || limit.files > 0 && a.files/times > limit.files
}
