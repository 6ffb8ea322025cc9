package learn

import (
	"strings"
	"sync"
)

// most is how many different accesses are kept.
const most = 65_536

// mostDeep is how many parts a name has that is kept: each of them is asked about.
const mostDeep = 256

// mostBytes is how much text they may have together: one name may have 8 KiB.
const mostBytes = 32 << 20

// Recorder keeps accesses while a run goes on, equal ones together.
type Recorder struct {
	mu   sync.Mutex
	at   map[key]int // index in list; guarded by mu
	list []Access    // guarded by mu
	size int         // of the text in list; guarded by mu
	lost int64       // guarded by mu
}

type key struct {
	path   string
	wish   Wish
	exists bool
	isDir  bool
	over   bool
	here   bool
}

// Add notes one. It is called by several goroutines, while somebody waits.
func (r *Recorder) Add(a Access) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key{a.Path, a.Wish, a.Exists, a.IsDir, a.Replaces, a.Relative}
	i, found := r.at[k]
	switch {
	case found:
		r.list[i].Count++
	case len(r.list) >= most || r.size+len(a.Path) > mostBytes || strings.Count(a.Path, "/") > mostDeep:
		r.lost++
	default:
		if r.at == nil {
			r.at = make(map[key]int)
		}
		r.at[k] = len(r.list)
		a.Count = 1
		r.size += len(a.Path)
		r.list = append(r.list, a)
	}
}

// Accesses are those that were kept, and how many were not.
func (r *Recorder) Accesses() (list []Access, lost int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list, r.lost
}
