package config

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/internal/secrets"
	"github.com/confine-run/confine/status"
)

// place is what a path is relative to.
type place struct{ dir, home string }

// mistake is what is wrong with one word; who reports it adds where it was said.
func mistake(msg, hint string) error { return &UsageError{Msg: msg, Hint: hint} }

// Meant is the end of a message about an unknown word.
func Meant(word string, candidates []string) string {
	if n := hint.Nearest(word, candidates); n != "" {
		return ", did you mean \"" + n + "\"?"
	}
	return ""
}

func checkWord(word string, words []string) (string, error) {
	if slices.Contains(words, word) {
		return word, nil
	}
	return "", mistake("is not known"+Meant(word, words), "it takes "+oneOf(words))
}

// oneOf is `"a", "b" or "c"`.
func oneOf(words []string) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(w))
	}
	return b.String()
}

// expand gives what a path starts from, and the rest of it. Variables are not
// expanded: a shell does that, and a file that did would say another thing on every host.
func (at place) expand(word string) (from, rest string, err error) {
	switch {
	case word == "":
		return "", "", mistake("is empty", "name a path")
	case strings.ContainsRune(word, 0):
		return "", "", mistake("contains a NUL byte", "")
	case filepath.IsAbs(word):
		return "", word, nil
	case word == "~" || strings.HasPrefix(word, "~/"):
		if !filepath.IsAbs(at.home) {
			return "", "", mistake("needs a home directory", "set HOME, or write the path out")
		}
		return at.home, word[1:], nil
	case word[0] == '~':
		return "", "", mistake("names another user's home directory", `write the path out, or "./`+word+`" for a file of that name`)
	case !filepath.IsAbs(at.dir):
		return "", "", mistake("is relative, and there is no current directory", "name an absolute path")
	}
	return at.dir, word, nil
}

// checkPath makes a path absolute. It looks at nothing: symbolic links are
// resolved once, later, by descriptor.
func checkPath(base place, word string) (string, error) {
	from, rest, err := base.expand(word)
	if err != nil {
		return "", err
	}
	return filepath.Join(from, rest), nil
}

// checkGlob makes a pattern absolute. The word "secrets" alone is the set of that
// name; a file called so is "./secrets".
func checkGlob(base place, word string) (string, error) {
	if word == secrets.Set {
		return word, nil
	}
	from, rest, err := base.expand(word)
	if err != nil {
		return "", err
	}
	if nearSecrets(word) && noFile(filepath.Join(from, rest)) {
		return "", mistake("is no file"+Meant(word, []string{secrets.Set}),
			`"`+secrets.Set+`" hides keys and credentials; a path that isn't there yet is "./`+word+`"`)
	}
	if err := CheckPattern(filepath.ToSlash(rest)); err != nil {
		return "", mistake(err.Error(), "it takes *, ?, [a-z], {a,b} and ** over directories; a backslash takes away their meaning")
	}
	return filepath.Join(escapeGlob(from), rest), nil
}

// nearSecrets: the word may have been meant for the set. Taken for a path that isn't there, it
// would hide nothing, and nobody would hear of it. A name with a dot, a star or a digit is a path.
func nearSecrets(word string) bool {
	const most = 2 // letters amiss
	letters := strings.IndexFunc(word, func(r rune) bool { return (r|0x20 < 'a' || r|0x20 > 'z') && r != '-' && r != '_' }) < 0
	return letters && len(word) <= len(secrets.Set)+most && hint.Distance(word, secrets.Set) <= most
}

// noFile: there is certainly nothing of that name. It is for telling words apart, and decides
// nothing about access.
func noFile(name string) bool {
	_, err := os.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// escapeGlob makes a directory's name stand for itself in a pattern.
func escapeGlob(dir string) string {
	const special = `*?[]{}\`
	if filepath.Separator == '\\' || !strings.ContainsAny(dir, special) {
		return dir // where the separator is a backslash, there is no escaping
	}
	var b strings.Builder
	for _, r := range dir {
		if strings.ContainsRune(special, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// checkProtect takes paths below every writable tree, and those below the home directory.
func checkProtect(_ place, word string) (string, error) {
	clean := path.Clean(word)
	if first, _, _ := strings.Cut(word, "/"); first == "~" && !strings.HasPrefix(clean, "~/") {
		return "", mistake("is not a path below the home directory", `it is "~/PATH", such as "~/bin"`)
	}
	if word == "" || clean == "." || path.IsAbs(clean) || filepath.IsAbs(word) || clean == ".." || strings.HasPrefix(clean, "../") {
		return "", mistake("is not a path below a tree", `it is relative to each writable tree, such as ".git/hooks"`)
	}
	return clean, nil
}

const mountHint = `it takes "SRC:DST", "SRC:DST:ro", "SRC:DST:rw" or "SRC:DST:overlay" with an absolute DST, or "tmpfs:DST:SIZE"`

func checkMount(base place, word string) (string, error) {
	m, err := parseMount(base, word)
	if err != nil {
		return "", err
	}
	return m.String(), nil
}

// parseMount reads from the right, so that only SRC can contain a colon.
func parseMount(base place, word string) (m Mount, err error) {
	if m, ok, err := parseTmpfs(word); ok || err != nil {
		return m, err
	}
	rest, mode := word, "ro"
	modes := []string{"ro", "rw", "overlay"}
	if i := strings.LastIndexByte(word, ':'); i >= 0 && !path.IsAbs(word[i+1:]) && word[i+1:] != "" {
		rest, mode = word[:i], word[i+1:]
		if !slices.Contains(modes, mode) {
			if strings.IndexByte(rest, ':') < 0 {
				return m, mistake("has a destination that is not absolute", mountHint)
			}
			return m, mistake("has the unknown mode "+strconv.Quote(mode)+Meant(mode, modes), mountHint)
		}
	}
	i := strings.LastIndexByte(rest, ':')
	if i < 0 {
		return m, mistake("has no destination", mountHint)
	}
	src, dst := rest[:i], rest[i+1:]
	switch {
	case src == "":
		return m, mistake("has no source", mountHint)
	case !path.IsAbs(dst):
		return m, mistake("has a destination that is not absolute", mountHint)
	case path.Clean(dst) == "/":
		return m, mistake("would replace the whole tree", "use --rootfs")
	}
	if src, err = checkPath(base, src); err != nil {
		return m, err
	}
	return Mount{Src: src, Dst: path.Clean(dst), Mode: mode}, nil
}

// parseTmpfs reads "tmpfs:DST:SIZE". Without a size, or with a mode in its place,
// it is a file called tmpfs.
func parseTmpfs(word string) (m Mount, ok bool, err error) {
	rest, ok := strings.CutPrefix(word, "tmpfs:/")
	i := strings.LastIndexByte(rest, ':')
	if !ok || i < 0 || rest[i+1:] == "" || !isDigit(rest[i+1]) || strings.IndexByte(rest[:i], ':') >= 0 {
		return m, false, nil
	}
	m.Dst = path.Clean("/" + rest[:i])
	if m.Size, err = ParseSize(rest[i+1:]); err != nil {
		return m, false, mistake(err.Error(), "it takes "+sizeForms)
	}
	switch {
	case m.Dst == "/":
		return m, false, mistake("would replace the whole tree", "use --rootfs")
	case m.Size < leastTmpfs:
		return m, false, mistake("is too small to hold a file", "the least is "+FormatSize(leastTmpfs))
	}
	return m, true, nil
}

// leastTmpfs is a page; the kernel rounds up to whole ones, and takes 0 for no limit.
const leastTmpfs = 4096

// maxTmpfs is how many of them a run can have: each has a descriptor on its way out.
const maxTmpfs = 16

func checkSeccomp(base place, word string) (string, error) {
	words := []string{"off", "default", "strict"}
	if slices.Contains(words, word) {
		return word, nil
	}
	// A mistyped word must not become the name of a file that isn't there.
	if strings.ContainsAny(word, `/\`) || strings.HasSuffix(word, ".toml") || strings.HasSuffix(word, ".json") {
		return checkPath(base, word)
	}
	return "", mistake("is not known"+Meant(word, words), "it takes "+oneOf(words)+`, or a file as "./FILE", "FILE.toml" or "FILE.json"`)
}

// checkSink takes "fd:N" or a file to write to.
func checkSink(base place, word string) (string, error) {
	if fd, ok := strings.CutPrefix(word, "fd:"); ok {
		n, err := strconv.ParseUint(fd, 10, 20)
		if err != nil || n == 0 {
			return "", mistake("names no descriptor that can be written to", `it takes a file or "fd:N", N from 1`)
		}
		return "fd:" + strconv.FormatUint(n, 10), nil
	}
	return checkPath(base, word)
}

func checkProfileName(_ place, word string) (string, error) {
	if !isProfileName(word) || word == wordNone {
		return "", mistake("is not a profile's name", `letters, digits, "-" and "_"`)
	}
	return word, nil
}

func isProfileName(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isLetter(c) && !isDigit(c) && c != '_' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

// capabilities are the names that --allow-partial and --require take.
var capabilities = [...]status.Capability{
	status.Containment, status.WallTime, status.CPUTime, status.CPURate, status.CPUs,
	status.Memory, status.Tasks, status.FileDescriptors, status.FileSize, status.Disk,
	status.Files, status.MountSize, status.Output, status.Filesystem, status.Network, status.Syscalls,
	status.Privileges, status.Cgroup, status.Overlay, status.Rootfs, status.Publish, status.Isolation,
}

// aliases are what people call capabilities: the option's name, the kernel's word.
var aliases = [...]struct {
	name string
	is   status.Capability
}{
	{"time_limit", status.WallTime}, {"wall", status.WallTime}, {"timeout", status.WallTime},
	{"cpu", status.CPUTime}, {"cpu_limit", status.CPURate}, {"cores", status.CPUs},
	{"memory_limit", status.Memory}, {"mem", status.Memory},
	{"processes", status.Tasks}, {"pids", status.Tasks}, {"threads", status.Tasks},
	{"fds", status.FileDescriptors}, {"nofile", status.FileDescriptors},
	{"max_file_size", status.FileSize}, {"disk_limit", status.Disk}, {"max_files", status.Files},
	{"output_limit", status.Output}, {"fs", status.Filesystem}, {"net", status.Network},
	{"seccomp", status.Syscalls}, {"cgroups", status.Cgroup}, {"cgroup_parent", status.Cgroup},
}

// Capabilities are the names that --allow-partial and --require take.
func Capabilities() []string {
	names := make([]string, len(capabilities))
	for i, c := range capabilities {
		names[i] = string(c)
	}
	return names
}

func checkCapability(word string, also ...string) (string, error) {
	name := strings.ReplaceAll(strings.ToLower(word), "-", "_")
	for _, c := range capabilities {
		if name == string(c) {
			return name, nil
		}
	}
	for _, a := range aliases {
		if name == a.name {
			return string(a.is), nil
		}
	}
	known := append(Capabilities(), also...)
	return "", mistake("is no capability"+Meant(name, known), "they are "+strings.Join(known, ", "))
}

func checkPartial(_ place, word string) (string, error) {
	if word == WordAll {
		return word, nil
	}
	return checkCapability(word, WordAll)
}

func checkRequire(_ place, word string) (string, error) {
	name, mechanism, ok := strings.Cut(word, "=")
	name, err := checkCapability(name)
	if err != nil || !ok {
		return name, err
	}
	if mechanism = strings.TrimSpace(mechanism); mechanism == "" {
		return "", mistake("names no mechanism after \"=\"", `such as "memory=cgroup v2"; "confine explain" shows those of this host`)
	}
	return name + "=" + mechanism, nil
}

// checkEnvName takes the name of a variable to pass, or the beginning of some: "LC_*".
func checkEnvName(_ place, word string) (string, error) {
	const hint = `it takes "NAME", "PREFIX_*" or "NAME=VALUE"`
	if word == "*" {
		return "", mistake("is all variables", "that is --keep-env")
	}
	if !isVariable(strings.TrimSuffix(word, "*")) {
		return "", mistake("is not the name of a variable", hint)
	}
	return word, nil
}

func isVariable(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isLetter(c) && c != '_' && (i == 0 || !isDigit(c)) {
			return false
		}
	}
	return s != ""
}

func checkEnvSet(_ place, word string) (string, error) {
	name, _, ok := strings.Cut(word, "=")
	if !ok {
		return "", mistake("has no value", `it takes "NAME=VALUE"`)
	}
	if !isVariable(name) {
		return "", mistake("is not the name of a variable", `it takes "NAME=VALUE"`)
	}
	return word, nil
}

func checkUser(_ place, word string) (string, error) {
	if u := parseUser(word); u != nil {
		return u.String(), nil
	}
	if u := namedUser(word); u != nil {
		return u.String(), nil
	}
	return "", mistake("is not a user", `it takes "USER" or "USER:GROUP", names of this host or numbers, such as "65534:65534"; "getent passwd" lists the names`)
}

// namedUser reads USER[:GROUP] where one of them is a name, or both, or gives nil. The group
// of a name is its own, that of a number the same number.
func namedUser(word string) *User {
	name, group, grouped := strings.Cut(word, ":")
	uid, gid := name, name
	if _, err := strconv.ParseUint(name, 10, 32); err != nil {
		u, err := user.Lookup(name)
		if err != nil {
			return nil
		}
		uid, gid = u.Uid, u.Gid
	}
	if grouped {
		gid = group
		if _, err := strconv.ParseUint(group, 10, 32); err != nil {
			g, err := user.LookupGroup(group)
			if err != nil {
				return nil
			}
			gid = g.Gid
		}
	}
	return parseUser(uid + ":" + gid)
}

// parseUser reads UID[:GID], or gives nil. The last number there is means "no
// change" to the kernel and is nobody.
func parseUser(word string) *User {
	uid, gid, ok := strings.Cut(word, ":")
	if !ok {
		gid = uid
	}
	u, err := strconv.ParseUint(uid, 10, 32)
	if err != nil || u == math.MaxUint32 {
		return nil
	}
	g, err := strconv.ParseUint(gid, 10, 32)
	if err != nil || g == math.MaxUint32 {
		return nil
	}
	return &User{UID: uint32(u), GID: uint32(g)}
}

// String is the form that --user takes.
func (u User) String() string {
	return strconv.FormatUint(uint64(u.UID), 10) + ":" + strconv.FormatUint(uint64(u.GID), 10)
}

func checkAllowHost(_ place, word string) (string, error) {
	if word == WordAll {
		return word, nil
	}
	word, err := network.Canonical(word)
	return word, hostMistake(err)
}

func checkDenyHost(_ place, word string) (string, error) {
	if word == WordAll {
		return "", mistake("stands only for what is allowed", "to reach nothing, allow nothing")
	}
	word, err := network.CanonicalDeny(word)
	return word, hostMistake(err)
}

// Rules compiles what may be reached: for plan, explain, gateway and self-test the one reading of these words.
func (n *Network) Rules() (*network.Rules, error) {
	rules, err := network.Compile(n.rules())
	if err != nil {
		return nil, &UsageError{Msg: err.Error(), Err: err}
	}
	return rules, nil
}

func (n *Network) rules() network.Policy {
	return network.Policy{Allow: n.Allow, Deny: n.Deny, Ports: n.Ports, BlockInternal: n.BlockInternal}
}

// hostMistake makes what is wrong with a word of the network a mistake of the user's.
func hostMistake(err error) error {
	var e *network.Error
	if !errors.As(err, &e) {
		return err
	}
	return mistake(e.Msg+Meant(e.Unknown, e.Known), e.Hint)
}

func checkPort(_ place, word string) (string, error) {
	n, err := network.CheckPort(word)
	return strconv.Itoa(int(n)), hostMistake(err)
}

func checkPublish(_ place, word string) (string, error) {
	const hint = `it takes "HOSTPORT:PORT", such as "8080:80"`
	outside, inside, ok := strings.Cut(word, ":")
	if !ok {
		return "", mistake("has no port inside", hint)
	}
	a, err := checkPort(place{}, outside)
	if err != nil {
		return "", mistake("has a port outside that "+err.(*UsageError).Msg, hint)
	}
	b, err := checkPort(place{}, inside)
	if err != nil {
		return "", mistake("has a port inside that "+err.(*UsageError).Msg, hint)
	}
	return a + ":" + b, nil
}

// Validate checks a policy that was built by hand. Resolve and Profile give none
// but valid ones. Paths must be absolute.
func (p *Policy) Validate() error {
	r := &Resolved{Policy: *p}
	for i := range options {
		o := &options[i]
		if o.Run {
			continue
		}
		for _, w := range o.words(r) {
			if _, err := o.canonical(place{}, w); err != nil {
				s := assignment{option: o, where: "policy"}
				return s.errorAt(w, err)
			}
		}
	}
	return p.conflicts()
}

// leastMemory is what execve of a small static program takes, and some more.
const leastMemory = 1 << 20

// conflicts are demands that can't both be met. None is dropped in silence.
func (p *Policy) conflicts() error {
	n, f := &p.Network, &p.Filesystem
	switch {
	case p.MemoryLimit > 0 && p.MemoryLimit < leastMemory:
		return &UsageError{Msg: "memory-limit " + strconv.Quote(FormatSize(p.MemoryLimit)) + " is less than any program needs to start", Hint: "the least is " + FormatSize(leastMemory)}
	case n.All && len(n.Deny) > 0:
		return wholeNetwork("deny-network", n.Deny[0])
	case n.All && len(n.Ports) > 0:
		return wholeNetwork("allow-port")
	case n.All && n.MaxBytes > 0:
		return wholeNetwork("network-bytes")
	case n.All && n.MaxConnections > 0:
		return wholeNetwork("network-connections")
	case f.Virtual && len(f.Mounts) == 0 && f.Rootfs == "":
		return &UsageError{Msg: "virtual-fs shows nothing but mounts, and there are none", Hint: "add --mount SRC:DST"}
	}
	sized := 0
	for i, m := range f.Mounts {
		if m.Size > 0 {
			if sized++; sized > maxTmpfs {
				return &UsageError{Msg: "there are more than " + strconv.Itoa(maxTmpfs) + " mounts of tmpfs", Hint: "make directories in one of them"}
			}
		}
		for _, earlier := range f.Mounts[:i] {
			if m.Dst == earlier.Dst {
				return &UsageError{Msg: "mounts " + strconv.Quote(earlier.String()) + " and " + strconv.Quote(m.String()) + " have the same destination"}
			}
		}
	}
	for i, a := range n.Publish {
		for _, earlier := range n.Publish[:i] {
			port, _, _ := strings.Cut(a, ":")
			if other, _, _ := strings.Cut(earlier, ":"); port == other {
				return &UsageError{Msg: "publish " + strconv.Quote(earlier) + " and " + strconv.Quote(a) + " want the same port outside"}
			}
		}
	}
	for _, req := range p.Require {
		name, _, _ := strings.Cut(req, "=")
		if slices.Contains(p.AllowPartial, name) {
			return &UsageError{Msg: "require and allow-partial both name " + strconv.Quote(name), Hint: "keep one of them"}
		}
	}
	return nil
}

// wholeNetwork is an option that says something of single hosts, beside the caller's
// network as it is.
func wholeNetwork(option string, word ...string) error {
	subject := option
	for _, w := range word {
		subject += " " + strconv.Quote(w)
	}
	return &UsageError{
		Msg:  subject + " can't be enforced on the caller's own network, which \"--allow-network all\" gives",
		Hint: "name the hosts that may be reached, or drop it with --" + option + " none",
	}
}

// check looks at everything together, at last, and notes what is surprising.
func (r *Resolved) check() error {
	if err := r.Policy.conflicts(); err != nil {
		return err
	}
	in, p := &r.Invocation, &r.Policy
	switch {
	case in.JSON && in.TTY == "always":
		return &UsageError{Msg: "json captures the streams, so the command can't have a terminal", Hint: "drop --json or --tty always"}
	}
	if err := in.onePlaceEach(); err != nil {
		return err
	}
	if p.Network.All && len(p.Network.Allow) > 0 {
		r.Notices = append(r.Notices, "the network is allowed as a whole, so naming "+strconv.Quote(p.Network.Allow[0])+" narrows nothing")
	}
	if p.Filesystem.Keep && !p.HasOverlay() && r.IsSet("keep") {
		r.Notices = append(r.Notices, nothingToKeep)
	}
	if p.VMKernel != "" && p.Isolation != "vm" && r.lastSource("vm-kernel", "").named {
		r.Notices = append(r.Notices, "vm-kernel is for --isolation vm, and does nothing without")
	}
	return nil
}

// onePlaceEach refuses two of report, events and record in one place.
func (in *Invocation) onePlaceEach() error {
	places := [...]struct{ name, at string }{{"report", in.Report}, {"events", in.Events}, {"record", in.Record}}
	for i, a := range places {
		for _, b := range places[i+1:] {
			if a.at != "" && a.at == b.at {
				return &UsageError{Msg: a.name + " and " + b.name + " would both write to " + strconv.Quote(a.at), Hint: "name two places"}
			}
		}
	}
	return nil
}

const nothingToKeep = "there is no overlay, so there is nothing to keep (keep)"

// HasOverlay says whether something is asked for as an overlay.
func (p *Policy) HasOverlay() bool {
	f := &p.Filesystem
	return f.Workdir == "overlay" || f.EphemeralHome || len(f.Overlay) > 0 || slices.ContainsFunc(f.Mounts, func(m Mount) bool { return m.Mode == "overlay" })
}
