package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/protect"
	"github.com/confine-run/confine/internal/quote"
	"github.com/confine-run/confine/status"
)

// profileDefault is the profile of a run that names none.
const profileDefault = "default"

// Profiles are the names of the profiles that ship.
func Profiles() []string {
	names := make([]string, len(builtins))
	for i := range builtins {
		names[i] = builtins[i].name
	}
	return names
}

// Default is the policy of the profile "default".
func Default() Policy {
	p, err := Profile(profileDefault)
	if err != nil {
		panic(err) // the table is wrong
	}
	return p
}

// Profile is the policy of a profile that ships.
func Profile(name string) (Policy, error) {
	var r Resolved
	var shipped profiles
	if builtinProfile(name) == nil {
		return Policy{}, shipped.unknown(name)
	}
	chain, err := shipped.chain(name, "")
	if err != nil {
		return Policy{}, err
	}
	err = r.applyAll(chain)
	r.Policy.Profile = name
	return r.Policy, err
}

// profiles are those that ship and what files say about profiles.
type profiles struct{ files []*file }

// chain is all that a profile says, from the bottom: what it extends first.
func (p *profiles) chain(name, where string) ([]assignment, error) {
	var list []assignment
	var path []string
	for {
		path = append(path, name)
		own, extends, at, err := p.own(name)
		if err != nil {
			return nil, within(where, err)
		}
		list = append(own, list...)
		if extends == "" {
			return list, nil
		}
		if slices.Contains(path, extends) {
			return nil, &UsageError{
				Msg:  fmt.Sprintf("%s: profile %q extends itself: %s", at, extends, strings.Join(append(path, extends), " → ")),
				Hint: "extend a profile that ships: " + strings.Join(Profiles(), ", "),
			}
		}
		name, where = extends, at
	}
}

func within(where string, err error) error {
	if u, ok := err.(*UsageError); ok && where != "" {
		return &UsageError{Msg: where + ": " + u.Msg, Hint: u.Hint, Err: u.Err}
	}
	return err
}

// own is what one profile says itself, and which one it extends.
//
// A new profile extends "default" unless it says otherwise, so that one that
// names a single limit has the others too. One that has the name of a profile
// that ships is laid over it.
func (p *profiles) own(name string) (list []assignment, extends, at string, err error) {
	var fromFiles []assignment
	found := false
	for _, f := range p.files {
		for _, piece := range f.parts {
			if piece.name != name {
				continue
			}
			found = true
			if at == "" || piece.extends != "" {
				at = piece.where
			}
			if piece.extends != "" {
				extends = piece.extends
			}
			fromFiles = append(fromFiles, piece.settings...)
		}
		if name == "testing" && !f.testOff {
			fromFiles = append(fromFiles, f.test...)
		}
	}
	shipped := builtinProfile(name)
	switch {
	case !found && shipped == nil && name != wordNone:
		return nil, "", "", p.unknown(name)
	case shipped != nil && (extends == "" || extends == name):
		return append(shipped.assignments(), fromFiles...), wordNone, at, nil
	case name == wordNone:
		return appendLines(nil, noProfile[:], BuiltIn), "", "", nil
	case extends == "":
		extends = profileDefault
	}
	return fromFiles, extends, at, nil
}

func (p *profiles) unknown(name string) error {
	known := p.names()
	return &UsageError{
		Msg:  "unknown profile " + strconv.Quote(name) + Meant(name, known),
		Hint: "there are " + strings.Join(known, ", "),
	}
}

// names are all profiles: those that ship, then those of files.
func (p *profiles) names() []string {
	names := Profiles()
	for _, f := range p.files {
		for _, piece := range f.parts {
			names = with(names, piece.name)
		}
	}
	return names
}

func builtinProfile(name string) *builtin {
	for i := range builtins {
		if builtins[i].name == name {
			return &builtins[i]
		}
	}
	return nil
}

// lines are all that a profile that ships says.
func (b *builtin) lines() []line {
	list := slices.Clone(everyProfile[:]) // its words are not written to: each is full
	for _, p := range protect.Default() {
		if last := &list[len(list)-1]; last.option == "protect" && last.why == p.Reason {
			last.words = append(last.words, p.Path)
		} else {
			list = append(list, line{"protect", []string{p.Path}, p.Reason})
		}
	}
	return append(list, b.says...)
}

// assignments are the same as lines without the reasons: every start pays for it.
func (b *builtin) assignments() []assignment {
	source := "profile " + b.name
	list := appendLines(make([]assignment, 0, len(everyProfile)+1+len(b.says)), everyProfile[:], source)
	protected := protect.Default()
	words := make([]string, len(protected))
	for i := range protected {
		words[i] = protected[i].Path
	}
	list = append(list, assignment{option: LookupOption("protect"), words: words, source: source, where: source})
	return appendLines(list, b.says, source)
}

// appendLines adds an assignment for each line, and one for lines in a row that add to the same list.
func appendLines(list []assignment, lines []line, source string) []assignment {
	for len(lines) > 0 {
		s := assignment{option: LookupOption(lines[0].option), words: slices.Clip(lines[0].words), source: source, where: source}
		n := 1
		for ; n < len(lines) && s.option.IsList() && lines[n].option == lines[0].option; n++ {
			s.words = append(s.words, lines[n].words...)
		}
		list, lines = append(list, s), lines[n:]
	}
	return list
}

// BuiltIn is the source of a value that no profile, file, variable or flag has set.
const BuiltIn = "built in"

// ProfileInfo is one profile in a list.
type ProfileInfo struct {
	Name   string
	About  string // one line; empty for a profile of a file
	Source string // "built in" and where a file says it
}

// ListProfiles lists the profiles that ship, and those of the files that count.
func ListProfiles(src Sources) (list []ProfileInfo, notices []string, err error) {
	r, err := gather(src)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range r.profiles.names() {
		info := ProfileInfo{Name: name}
		var at []string
		if b := builtinProfile(name); b != nil {
			info.About = b.about
			at = append(at, BuiltIn)
		}
		for _, f := range r.files {
			for _, piece := range f.parts {
				if piece.name == name {
					at = append(at, Printable(f.path))
				}
			}
		}
		info.Source = strings.Join(at, ", ")
		list = append(list, info)
	}
	return list, r.out.Notices, nil
}

// ProfileTOML shows a profile that ships in full, as TOML that can be pasted into
// a file: it extends nothing, and gives the same policy there.
func ProfileTOML(name string) (string, error) {
	p, err := Profile(name)
	if err != nil {
		return "", err
	}
	b := builtinProfile(name)
	var why []line
	for _, l := range b.lines() {
		if !LookupOption(l.option).IsList() { // the later one holds
			why = slices.DeleteFunc(why, func(old line) bool { return old.option == l.option })
		}
		why = append(why, l)
	}
	return "# " + name + ": " + b.about + "\n" + p.toml(name, why), nil
}

// ShowProfile is ProfileTOML for the profiles of files too.
func ShowProfile(src Sources, name string) (string, error) {
	r, err := gather(src)
	if err != nil {
		return "", err
	}
	if name == wordNone {
		return "", r.profiles.unknown(name)
	}
	said, err := r.profiles.chain(name, "")
	if err != nil {
		return "", err
	}
	if err := r.out.applyAll(said); err != nil {
		return "", err
	}
	if builtinProfile(name) != nil && !slices.ContainsFunc(said, fromFile) {
		return ProfileTOML(name)
	}
	return r.out.Policy.TOML(name), nil
}

func fromFile(s assignment) bool { return s.base != place{} }

// TOML is the policy as a profile of this name that extends nothing.
func (p *Policy) TOML(name string) string { return p.toml(name, nil) }

func (p *Policy) toml(name string, why []line) string {
	r := &Resolved{Policy: *p}
	head := "sandbox.profiles." + tomlKey(name)
	var b strings.Builder
	b.WriteString("[" + head + "]\nextends = \"none\"\n")
	for _, table := range []string{"", "network", "filesystem", "env"} {
		if table != "" {
			b.WriteString("\n[" + head + "." + table + "]\n")
		}
		for i := range options {
			o := &options[i]
			parent, key := "", o.Key
			if dot := strings.LastIndexByte(key, '.'); dot >= 0 {
				parent, key = key[:dot], key[dot+1:]
			}
			if key == "" || o.Run || parent != table {
				continue
			}
			own := slices.DeleteFunc(slices.Clone(why), func(l line) bool { return l.option != o.Name })
			if value := o.toml(r, own); value != "" {
				b.WriteString(key + " = " + value + "\n")
			}
		}
	}
	return b.String()
}

// toml is the option's value, or "" when it needs no saying, with the reasons for it.
func (o *Option) toml(r *Resolved, why []line) string {
	words := o.words(r)
	if o.Kind == KindList {
		if o.Name == "env-set" {
			return tomlTable(words)
		}
		return tomlList(words, why, o.Name == "allow-port")
	}
	if len(words) == 0 {
		return ""
	}
	value := quote.TOML(words[0])
	if o.Kind == KindBool || words[0] != wordNone && (o.Kind == KindCount || o.Kind == KindPercent) {
		value = strings.TrimSuffix(words[0], "%")
	}
	if len(why) > 0 && why[0].why != "" {
		value += " # " + why[0].why
	}
	return value
}

func tomlTable(words []string) string {
	var parts []string
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		parts = append(parts, tomlKey(k)+" = "+quote.TOML(v))
	}
	if parts == nil {
		return "{}"
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

// tomlList is a list, with a line for each reason.
func tomlList(words []string, why []line, numbers bool) string {
	join := func(words []string) string {
		words = slices.Clone(words)
		for i := range words {
			if !numbers {
				words[i] = quote.TOML(words[i])
			}
		}
		return strings.Join(words, ", ")
	}
	if len(why) == 0 {
		return "[" + join(words) + "]"
	}
	var b strings.Builder
	b.WriteString("[\n")
	for _, l := range why {
		if l.why != "" {
			b.WriteString("    # " + l.why + "\n")
		}
		b.WriteString("    " + join(l.words) + ",\n")
	}
	b.WriteString("]")
	return b.String()
}

func tomlKey(k string) string {
	if isProfileName(k) {
		return k
	}
	return quote.TOML(k)
}

// learningDisk and learningTasks bound what a run can do to the host while it is learned
// from: it may need more than strict gives, and not all that there is.
const (
	learningDisk  = 4 << 30
	learningTasks = 4096
)

// Permissive lifts what the profile says, so that a run under it shows what the command
// needs: it sees whatever the caller may read, and writes to overlays, reaches hosts
// through the gateway, and has no limits but on disk and tasks. What flags, variables and files said
// stays. reads and overlays are directories to show so, beside the current one.
// Command.WatchFiles and WatchCalls hand what it does to IO.
func (r *Resolved) Permissive(reads, overlays []string) {
	p := &r.Policy
	f := &p.Filesystem
	for _, o := range []struct {
		option string
		lift   func()
	}{
		{"time-limit", func() { p.TimeLimit = 0 }},
		{"cpu-time", func() { p.CPUTime = 0 }},
		{"memory-limit", func() { p.MemoryLimit = 0 }},
		{"cpus", func() { p.CPUs = 0 }},
		{"cpu-limit", func() { p.CPULimit = 0 }},
		{"processes", func() { p.Processes = learningTasks }},
		{"file-descriptors", func() { p.FileDescriptors = 0 }},
		{"disk-limit", func() { p.DiskLimit = learningDisk }},
		{"output-limit", func() { p.OutputLimit = 0 }},
		{"allow-network", func() {
			p.Network.Allow, p.Network.BlockInternal = []string{"*", "0.0.0.0/0", "::/0", "localhost"}, false
		}},
		{"workdir", func() { f.Workdir = "overlay" }},
		{"keep", func() { f.Keep = false }},
		{"landlock", func() { f.Landlock = false }},
		{"seccomp", func() { p.Seccomp = profileDefault }},
		{"seccomp-action", func() { p.SeccompAction = "errno" }},
	} {
		if !r.IsSet(o.option) {
			o.lift()
		}
	}
	if p.HasOverlay() {
		r.Notices = slices.DeleteFunc(r.Notices, func(n string) bool { return n == nothingToKeep })
	}
	p.AllowPartial = withoutOverlays(p.AllowPartial)
	for _, dir := range append([]string{"/"}, reads...) {
		f.AllowRead = with(f.AllowRead, dir)
	}
	for _, dir := range overlays {
		if !slices.Contains(f.AllowRead, dir) && !slices.Contains(f.AllowWrite, dir) {
			f.Overlay = with(f.Overlay, dir)
		}
	}
}

// withoutOverlays is what may be enforced in part: where there can be no overlays, the run
// would write to the caller's files.
func withoutOverlays(partial []string) (list []string) {
	if slices.Contains(partial, WordAll) {
		partial = Capabilities()
	}
	for _, c := range partial {
		if c != string(status.Overlay) && c != string(status.Filesystem) {
			list = append(list, c)
		}
	}
	return list
}

// Lift takes away limits that a profile sets for single commands, where commands come one after another: they
// would end what is not meant to end soon, or cut what it shows. What the user, a file or a variable has set stays. source is who says so.
func (r *Resolved) Lift(source string, options ...string) {
	for _, option := range options {
		if r.IsSet(option) {
			continue
		}
		switch option {
		case "time-limit":
			r.Policy.TimeLimit = 0
		case "cpu-time":
			r.Policy.CPUTime = 0
		case "output-limit":
			r.Policy.OutputLimit = 0
		default:
			panic(option)
		}
		r.Origins[option] = append(r.Origins[option], Setting{Option: option, Values: []string{"none"}, Source: source})
	}
}

// Allot is for an allocation that somebody else has made: it is the limit where only a profile, or nobody, has set one, and what is set may not be
// wider. source is who says so.
func (r *Resolved) Allot(source, option string, most int64) error {
	memory, cpus := &r.Policy.MemoryLimit, &r.Policy.CPUs
	set, text := r.IsSet(option), FormatSize(most)
	wider := false
	switch option {
	case "memory-limit":
		if wider = over(*memory, most); !set {
			*memory = most
		}
	case "cpus":
		text = strconv.FormatInt(most, 10)
		if wider = over(int64(*cpus), most); !set {
			*cpus = int(most)
		}
	default:
		panic(option)
	}
	if set && wider {
		return &UsageError{Msg: "--" + option + " is more than the " + text + " of the allocation (" + source + ")", Hint: "ask for less, or for a larger allocation"}
	}
	if !set {
		r.Origins[option] = append(r.Origins[option], Setting{Option: option, Values: []string{text}, Source: source})
	}
	return nil
}

// IsSet says whether a flag, a variable or a file sets an option, and not only a profile.
func (r *Resolved) IsSet(option string) bool {
	said := r.Origins[option]
	if len(said) == 0 {
		return false
	}
	last := said[len(said)-1].Source
	return last != BuiltIn && !strings.HasPrefix(last, "profile ")
}
