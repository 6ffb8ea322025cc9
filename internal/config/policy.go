package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/view"
)

// Policy is what is wanted, whatever the host. The zero value of a limit means
// that there is none; Default and Profile give policies that have some.
//
// Times are durations, sizes are bytes (1024-based when written as words),
// counts are plain numbers.
type Policy struct {
	Profile string // the profile it started from, for the report

	TimeLimit       time.Duration // wall clock
	CPUTime         time.Duration // CPU of the whole tree
	MemoryLimit     int64         // of the whole tree
	CPULimit        int           // rate, in percent of one core
	CPUs            int           // number of cores
	Processes       int64         // tasks in the tree; threads count
	FileDescriptors int64         // open files per process
	DiskLimit       int64         // what can be written in scratch and overlays
	MaxFileSize     int64         // one file
	MaxFiles        int64         // number of files in scratch and overlays
	OutputLimit     int64         // per stream
	Grace           time.Duration // between SIGTERM and SIGKILL

	Network    Network
	Filesystem Filesystem
	Env        Env

	Seccomp       string // "off", "default", "strict", or a file's path
	SeccompAction string // "errno", "kill" or "log"
	Isolation     string // "process", "wasm" or "vm"
	Level
	User         *User // as root: run as another
	CgroupParent string

	// AllowPartial names capabilities that need not be enforceable ("all": none
	// needs to). Require names those without which nothing starts, as
	// "CAPABILITY" or "CAPABILITY=MECHANISM".
	AllowPartial []string
	Require      []string

	trusted map[string][]byte // by path: the text of files for Seccomp, which isn't to be read again
}

// Level is what is said of an isolation beside its name.
type Level struct {
	Deterministic bool   // of wasm: clocks and random numbers are the same in each run
	VMKernel      string // the file of the kernel that a machine boots; empty: the one beside the program, or the host's
}

// TrustedSeccomp is the text of the file that Seccomp names, where that was read when the policy file that names it
// was trusted, and isn't to be read again.
func (p *Policy) TrustedSeccomp() ([]byte, bool) {
	text, ok := p.trusted[p.Seccomp]
	return text, ok
}

// ScratchLimit is what can be written in private places and overlays together: DiskLimit,
// and not more than three quarters of MemoryLimit. They are memory of the run, so that a
// program that fills them past that was killed before it got ENOSPC.
func (p *Policy) ScratchLimit() int64 {
	if p.MemoryLimit > 0 {
		return min(p.DiskLimit, p.MemoryLimit/4*3)
	}
	return p.DiskLimit
}

// Network says what of the network is reachable. Nothing allowed is no network.
type Network struct {
	All            bool     // the caller's network as it is
	Allow          []string // [SCHEME://]HOST[:PORT][/PATH], see internal/network
	Deny           []string // HOST[:PORT]; deny beats allow
	Ports          []int    // for what is allowed without a port of its own; empty: any
	BlockInternal  bool     // loopback, link-local, private and metadata addresses, unless named
	Log            bool     // log allowed attempts too, and without a network those that are made
	MaxBytes       int64    // all bytes through the network, both ways together
	MaxConnections int64    // at one time
	Publish        []string // HOSTPORT:PORT
}

// Filesystem says what of the file system is visible, and what of it is writable.
type Filesystem = view.Filesystem

// Mount is one --mount.
type Mount = view.Mount

// PathRule is one entry of what is visible, and why.
type PathRule = view.Rule

// Env says what of the environment the target gets. It is built from nothing.
type Env struct {
	Pass    []string
	Set     map[string]string
	KeepAll bool
}

// User is who the target is, when the caller is root.
type User struct{ UID, GID uint32 }

// Environment builds what the target gets from nothing: what the policy passes
// of the caller's, then what the sandbox says (HOME, TMPDIR, PATH, tool chains),
// then what the policy sets. Later beats earlier. The result is sorted.
func Environment(p *Env, caller []string, sandbox map[string]string) []string {
	values := map[string]string{}
	for _, e := range caller {
		name, value, ok := strings.Cut(e, "=")
		if ok && name != "" && (p.KeepAll || Passes(p.Pass, name)) && !strings.HasPrefix(name, envPrefix) {
			values[name] = value
		}
	}
	maps.Copy(values, sandbox)
	maps.Copy(values, p.Set)
	list := make([]string, 0, len(values))
	for name, value := range values {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// Passes says whether a name is in a list: a name ending in * stands for all that begin so.
func Passes(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		prefix, ok := strings.CutSuffix(n, "*")
		return n == name || ok && strings.HasPrefix(name, prefix)
	})
}

// Heard says whether somebody outside hears whom the run tries to reach: where it may reach some, or all that it tries is to be told.
func (n *Network) Heard() bool { return !n.All && (len(n.Allow) > 0 || n.Log) }

// Change is a network of which the options that are said are others, and the rest is as it was. A list is what is said of it,
// and does not add to what it was.
func (n *Network) Change(said []Setting) (*Network, error) {
	r := &Resolved{Policy: Policy{Network: *n}}
	for _, s := range said {
		o := LookupOption(s.Option)
		if o == nil || o.Group != GroupNetwork {
			return nil, &UsageError{Msg: "--" + s.Option + " is no option of the network", Hint: "the others are decided when a sandbox is opened"}
		}
		if o.IsList() {
			o.setList(r, nil)
		}
	}
	list, err := fromFlags(said, place{})
	if err != nil {
		return nil, err
	}
	if err := r.applyAll(list); err != nil {
		return nil, err
	}
	return &r.Policy.Network, nil
}

// Settings are what would have to be said for all of it, in the order of help: of a list that is empty, nothing.
func (n *Network) Settings() (all []Setting) {
	r := &Resolved{Policy: Policy{Network: *n}}
	for i := range options {
		if o := &options[i]; o.Group == GroupNetwork {
			all = append(all, Setting{Option: o.Name, Values: o.words(r)})
		}
	}
	return all
}
