package view

import (
	"cmp"
	"strings"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/quote"
)

// Filesystem is what a policy says: what of the file system is visible, and what of it is writable.
// The most specific path wins; at a tie, deny wins.
type Filesystem struct {
	AllowRead  []string
	AllowWrite []string
	Deny       []string // globs: *, ?, [], {} and ** over directories; "secrets" alone is the set of that name
	Workdir    string   // "none", "ro", "rw" or "overlay": how the current directory appears; empty is "none"
	// WorkdirAsked: Workdir was asked for by the caller and not only by a
	// profile. Then a directory that is too broad to expose is an error.
	WorkdirAsked bool
	Chdir        string  // where to start
	Mounts       []Mount // SRC:DST[:ro|rw|overlay]
	Virtual      bool    // only mounts are visible
	TempDir      bool    // a private, writable $TMPDIR
	Home         bool    // the home directory is readable, except secrets and most dot names (profile development)
	Etc          bool    // of /etc what every user may read is shown, secrets aside, and not a chosen part
	// EphemeralHome: the home directory is an overlay, except secrets.
	EphemeralHome bool
	Overlay       []string
	Keep          bool
	Rootfs        string // a prepared tree as /
	// Landlock: below the mount namespace, as a second layer (profile strict).
	// Without a mount namespace it is used anyway, as the only one.
	Landlock bool
	Protect  []string // read-only or kept absent even in a writable tree; relative to each such tree
	Log      bool     // tell each access that these rules refuse
}

// Mount is one --mount.
type Mount struct {
	Src, Dst string
	Mode     string // "ro", "rw" or "overlay"; empty is "ro"
	Size     int64  // more than 0: an empty, private place of so many bytes at Dst, and Src says nothing
}

// String is the form that --mount takes.
func (m Mount) String() string {
	if m.Size > 0 {
		return "tmpfs:" + m.Dst + ":" + quote.Size(m.Size)
	}
	mode := m.Mode
	mode = cmp.Or(mode, "ro")
	return m.Src + ":" + m.Dst + ":" + mode
}

// Caller is who asks, and from where.
type Caller struct {
	Dir, HomeDir, UserName string
	UID, GID               uint32 // inside
	AccessUID, AccessGID   uint32 // outside; who will open the sources
	Env                    func(string) string
	Command                string   // argv[0] as typed
	ConfigFiles            []string // policy files in use: never writable inside
	Work                   []string // further trees of work: what others may fill
}

// Input is all that a view depends on, but for what is asked of the host.
type Input struct {
	Filesystem
	Caller

	Image    Image // what Rootfs says about itself
	Hostname string
	// Masked and ReadOnly are names below /proc that are so beside those that always are.
	Masked, ReadOnly []string
	// NetworkAll: the network is the caller's. Resolver is the address of who answers for names
	// otherwise; "" is nobody.
	NetworkAll bool
	Resolver   string
	// Stranger is an id that no file belongs to and that is mapped, too, for uid 0; 0 is none.
	Stranger  uint32
	Bare      bool // nothing is mounted: Landlock holds the rules, or seatbelt, or nothing does
	MacOS     bool // the host's system is that; Bare, too
	OwnUserns bool // mounts are made in a user namespace of the run's own
	// SocketsHeld: Landlock keeps the host's unix sockets out of reach, wherever they are.
	SocketsHeld bool

	Host hostfs.Host // nil is this host
}

// Image is what a tree that becomes the root says about itself.
type Image struct {
	Path string // PATH; empty is the usual one
	Dir  string // where to start; empty is /
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
var FromSecrets = Origin{FromDeny, "secrets"}

// OriginOf is that of a flag with a word.
func OriginOf(flag, word string) Origin { return Origin{strings.TrimPrefix(flag, "--"), word} }
