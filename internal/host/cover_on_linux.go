//go:build confinecover

package host

import (
	"bytes"
	"encoding/hex"
	"os"
	"runtime/coverage"
	"strconv"
	"time"
)

// finish, in a build for coverage, has what ran in the throw-away process
// written to GOCOVERDIR, which has to be opened while it can still be seen. The
// hash in the names of the two files stands at a fixed place in the first.
func finish() func() {
	const hashAt, hashEnd = 24, 40
	dir, err := os.OpenRoot(os.Getenv("GOCOVERDIR"))
	if err != nil {
		return func() {}
	}
	return func() {
		var meta, counters bytes.Buffer
		if coverage.WriteMeta(&meta) != nil || coverage.WriteCounters(&counters) != nil || meta.Len() < hashEnd {
			return
		}
		hash := hex.EncodeToString(meta.Bytes()[hashAt:hashEnd])
		_ = dir.WriteFile("covmeta."+hash, meta.Bytes(), 0o666)
		_ = dir.WriteFile("covcounters."+hash+"."+strconv.Itoa(os.Getpid())+"."+strconv.FormatInt(time.Now().UnixNano(), 10), counters.Bytes(), 0o666)
	}
}
