//go:build confinecover

package child

import (
	"encoding/hex"
	"runtime/coverage"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A build for coverage: what ran in the child is written to GOCOVERDIR, whose
// directory has to be opened while it can still be seen.

var coverDir = -1

// early: main sets up what counts.
const early = false

func openCoverage() {
	if dir, ok := syscall.Getenv("GOCOVERDIR"); ok {
		coverDir, _ = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
}

// flushCoverage writes the two files that covdata expects. The hash in their
// names stands at a fixed place in the first.
func flushCoverage() {
	const hashAt, hashEnd = 24, 40
	var meta, counters sliceWriter
	if coverDir < 0 || coverage.WriteMeta(&meta) != nil || coverage.WriteCounters(&counters) != nil || len(meta) < hashEnd {
		return
	}
	hash := hex.EncodeToString(meta[hashAt:hashEnd])
	writeCoverage("covmeta."+hash, meta)
	writeCoverage("covcounters."+hash+"."+strconv.Itoa(unix.Getpid())+"."+strconv.FormatInt(time.Now().UnixNano(), 10), counters)
}

func writeCoverage(name string, data []byte) {
	fd, err := unix.Openat(coverDir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_, _ = unix.Write(fd, data)
}

type sliceWriter []byte

func (w *sliceWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}
