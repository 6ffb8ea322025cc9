package landlock

import (
	"fmt"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/view"
)

// Limit is something asked for that Landlock can't hold as asked.
type Limit struct {
	Kind Kind
	Path string // empty: everywhere
}

// Kind is why.
type Kind uint8

// The kinds, in the order in which they are told.
const (
	Names Kind = iota
	Metadata
	Sockets
	Proc
	OwnEtc
	Moves
	Truncation
	Ioctls
	Private
	Sized
	Overlay
	Elsewhere
	Root
	Unlisted
	NoNewNames
	LeftOut
	Later
	Inherited
)

// kinds say what holds instead.
var kinds = [...]struct {
	about  string // what can't be
	access string // what explain shows for the path; empty leaves it
	// before is the first version that has it not; 0 if all have it.
	before int
}{
	Names:      {"that a path exists, and its size, mode and times, can be seen everywhere", "", 0},
	Metadata:   {"mode, owner, times and attributes of the user's own files can be changed everywhere", "", 0},
	Sockets:    {"unix sockets can be reached by path as by the caller (before Linux 7.1)", "", 9},
	Proc:       {"/proc is the caller's, and can be read: names and command lines of other processes", view.RuleRead, 0},
	OwnEtc:     {"passwd, group, hosts and the like in /etc are the host's own", view.RuleRead, 0},
	Moves:      {"nothing can be moved or linked to another directory (before Linux 5.19)", "", 2},
	Truncation: {"any file that the user may write to can be truncated (before Linux 6.2)", "", 3},
	Ioctls:     {"device nodes in allowed trees answer ioctl (before Linux 6.10)", "", 5},
	Private:    {"no private place but $TMPDIR; the caller's is closed", view.RuleHidden, 0},
	Sized:      {"no place of its own size; what is there outside is closed", view.RuleHidden, 0},
	Overlay:    {"no overlay: read-only", view.RuleRead, 0},
	Elsewhere:  {"not shown, since it is at another path outside", view.RuleHidden, 0},
	Root:       {"no other root: the tree that was to be it isn't shown, and the host's, of which only what is named is open, stays where it is", view.RuleHidden, 0},
	Unlisted:   {"can't be listed, because something in it is hidden", "", 0},
	NoNewNames: {"nothing can be made or removed in it, because something in it is hidden or protected", "", 0},
	Inherited:  {"what is read-only there is so by its mount alone, since more is allowed around it", "", 0},
	LeftOut:    {"too many names in it to allow each that is beside something hidden or protected: they are left out", "", 0},
	Later:      {"--deny holds for what is there at the start, not for what is made later in writable trees", "", 0},
}

// About says what can't be held, and what holds instead.
func (k Kind) About() string { return kinds[k].about }

// Access is how explain shows the path of such a limit; empty: as it was.
func (k Kind) Access() string { return kinds[k].access }

func (r *Ruleset) limit(k Kind, path string) {
	r.Limits = append(r.Limits, Limit{k, path})
}

// always adds what is so whatever the rules say.
func (r *Ruleset) always() {
	r.limit(Names, "")
	r.limit(Metadata, "")
	for k := range kinds {
		if r.ABI < kinds[k].before {
			r.limit(Kind(k), "")
		}
	}
	slices.SortStableFunc(r.Limits, func(a, b Limit) int { return int(a.Kind) - int(b.Kind) })
}

// mostPaths are named of each kind in one line.
const mostPaths = 3

// Details are the limits in one line.
func (r *Ruleset) Details() string {
	var parts []string
	for i := 0; i < len(r.Limits); {
		k := r.Limits[i].Kind
		var paths []string
		for ; i < len(r.Limits) && r.Limits[i].Kind == k; i++ {
			if p := r.Limits[i].Path; p != "" && k != Proc && k != OwnEtc {
				paths = append(paths, p)
			}
		}
		text := k.About()
		if n := len(paths); n > mostPaths {
			text = fmt.Sprintf("%s and %d more: %s", strings.Join(paths[:mostPaths], ", "), n-mostPaths, text)
		} else if n > 0 {
			text = strings.Join(paths, ", ") + ": " + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
