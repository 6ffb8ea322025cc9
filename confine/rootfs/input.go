package rootfs

import (
	"strings"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/secrets"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/plan"
)

// Input is all that the table depends on, but for the host itself.
type Input struct {
	AllowRead, AllowWrite []string
	Deny                  []string // paths, globs (*, ?, [], {} and **), and the word of SetSecrets
	Workdir               string   // "none", "ro", "rw" or "overlay"; empty is "none"
	WorkdirAsked          bool     // by the caller, and not only by a profile
	Chdir                 string   // inside; where to start
	Mounts                []Mount
	Virtual, TempDir      bool
	Home                  bool // the home directory is readable, except secrets and dot names that no list has
	EphemeralHome         bool // it is an overlay, except secrets
	Etc                   bool // of /etc what every user may read is shown, and not a chosen part
	// Stranger is an id that no file belongs to and that is mapped, too, for uid 0; 0 is none.
	Stranger    uint32
	Overlay     []string
	Rootfs      string   // a prepared tree as /
	Image       Image    // what that says about itself
	Protect     []string // relative to each writable tree
	ConfigFiles []string // policy files in use: never writable inside

	Dir, HomeDir, UserName string
	UID, GID               uint32 // inside
	AccessUID, AccessGID   uint32 // outside; who will open the sources
	Env                    func(string) string
	Command                string // argv[0] as typed
	Hostname               string
	NetworkAll             bool
	Resolver               string // address of who answers for names; "" is nobody
	Bare                   bool   // nothing is mounted: Landlock holds the rules, or nothing does
	OwnUserns              bool   // mounts are made in a user namespace of the run's own

	// SocketsHeld: Landlock keeps the host's unix sockets out of reach, wherever they are.
	SocketsHeld bool

	Host hostfs.Host // nil is this host
}

// Mount is one --mount.
type Mount struct {
	Src, Dst string
	Mode     string // "ro", "rw" or "overlay"; empty is "ro"
	Size     int64  // more than 0: an empty, private place of so many bytes, and nothing of Src
}

// Table is what the target will see.
type Table struct {
	Root   handoff.Mount // the tree that is /; of no kind when that is a private one
	Mounts []handoff.Mount
	Dir    string // where to start
	// Env is what follows for the environment: HOME, TMPDIR, PATH with only the
	// entries that exist inside, and the variables of the tool chains shown.
	Env map[string]string
	// Caches are variables of tool chains' caches that would be overlays, where there are
	// none: what they name has to be a place of the run's own.
	Caches []string
	// KeepAbsent are protected paths, outside, that don't exist and must not
	// come to be. A target may turn any directory on the way into a symbolic link.
	KeepAbsent []string
	// KeepClear are the directories that are missing on the way there, parents first.
	// What comes to be there has to be a directory, and nothing else.
	KeepClear []string
	// Hidden, Covered, GitIndexes and Places are what the plan has by these names.
	Hidden     []string
	Covered    []plan.Covered
	GitIndexes []plan.GitIndex
	Places     []plan.Place
	// Overlays are the trees that the caller wanted as overlays, for review. What
	// discovery makes one is thrown away and concerns nobody.
	Overlays []plan.Overlay
	// Nested are the trees that can be no overlays because of what is mounted below.
	Nested []Nested
	// NoHome is why there is no home directory to be an overlay, although one was to be.
	NoHome string
	// Beside are mounts below overlays, outside, which are shown read-only.
	Beside []string
	// DenyAtStart: a pattern is to hide what matches in a writable tree, which
	// holds only for what is there when the run starts.
	DenyAtStart bool
	// ProtectsLess: not all is protected that would have to be; a notice says what not.
	ProtectsLess bool
	// SocketsLater: a tree of the caller's is shown in which somebody outside can bind
	// a socket after the start, which nothing here hides.
	SocketsLater bool
	// SocketsMissed is why a socket that is there when the run starts may not be hidden; "" is no reason.
	SocketsMissed string
	Notices       []string
	Rules         []Rule // sorted by path
}

// Rule says how one path appears, and why.
type Rule struct {
	Path   string `json:"path"`
	Access string `json:"access"` // one of the constants below
	Why    string `json:"why"`
	Origin Origin `json:"-"`
}

// Origin is the option that a rule comes from: its name, and which of its words, where a word is
// behind it. It is the zero value for what every run has.
type Origin struct{ Option, Word string }

// The names of options that rules come from, beside those that begin with "--" in errors.
const (
	FromDeny    = "deny"
	FromHome    = "home"
	FromMount   = "mount"
	FromProtect = "protect"
	FromTempDir = "temp-dir"
	FromWorkdir = "workdir"
)

// FromSecrets is the origin of what the set of secrets hides.
var FromSecrets = Origin{FromDeny, secrets.Set}

// originOf is that of a flag with a word.
func originOf(flag, word string) Origin { return Origin{strings.TrimPrefix(flag, "--"), word} }

// The values of Rule.Access.
const (
	AccessRead      = "read"
	AccessWrite     = "write"
	AccessOverlay   = "overlay"
	AccessPrivate   = "private"
	AccessHidden    = "hidden"
	AccessProtected = "protected"
)
