package process

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/explain"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/landlock"
	"github.com/confine-run/confine/internal/netns"
	"github.com/confine-run/confine/internal/view"
	"github.com/confine-run/confine/status"
)

// fileCompiler compiles what is visible: a table of mounts and the rules of Landlock, or without a mount namespace these
// alone; and with it the environment, which names places.
type fileCompiler struct{ *planner }

func (p *fileCompiler) compile() error {
	in := view.Input{
		Filesystem: p.policy.Filesystem,
		Caller: view.Caller{
			Dir: p.command.Dir, HomeDir: p.command.env("HOME"), UserName: p.command.env("USER"),
			UID: p.uid, GID: p.gid, AccessUID: p.uid, AccessGID: p.gid,
			Env: p.command.env, Command: p.command.Argv[0], ConfigFiles: p.command.ConfigFiles,
		},
		Hostname: cmp.Or(p.command.Shape.Hostname, netns.Hostname), NetworkAll: p.policy.Network.All, Resolver: p.resolver(), Bare: p.tier == tierNoNS, OwnUserns: p.tier == tierUserNS,
		SocketsHeld: landlock.Version(p.landlock).FS&landlock.ResolveUnix != 0,
	}
	in.Masked, in.ReadOnly = p.command.Shape.Masked, p.command.Shape.ReadOnly
	if in.Etc && p.uid == 0 && p.tier != tierNoNS && p.plan.Box.DropGroups && p.host.Capable(unix.CAP_SETUID) {
		in.Stranger = stranger()
	}
	if err := p.root(&in); err != nil {
		return err
	}
	table, err := p.command.look(in)
	if err != nil {
		return usage(p.startHint(err))
	}
	p.plan.table = table
	c, e := &p.plan.Box, &p.plan.Exec
	c.Root, c.Mounts, e.Dir, c.Stranger = table.Root, table.Mounts, table.Dir, in.Stranger
	c.Root.Sealed = p.command.Shape.Sealed
	if p.tier == tierNoNS {
		if err := p.withoutMountNS(); err != nil {
			return err
		}
	}
	if err := p.restrict(); err != nil {
		return err
	}
	c.Scratch = handoff.Scratch{Size: p.policy.ScratchLimit(), Inodes: p.policy.MaxFiles, HandOut: p.command.Boxed && p.tier != tierNoNS}
	p.plan.viewer = explain.Viewer{UID: p.uid, GID: p.gid, OneID: p.tier == tierUserNS, Bare: p.tier == tierNoNS}
	p.plan.Guarded = table.Guarded
	p.plan.Notices = hint.Notices(table.Notices)
	p.imageDir(in.Image.Dir)
	p.plan.Rules = p.rulesHere()
	if p.tier == tierNoNS {
		p.noticeImmutable()
	}
	p.view()
	p.rootfs()
	p.overlays()
	table.Env["PWD"] = table.Dir
	e.Argv = p.command.Argv
	e.Env = withEnv(config.Environment(&p.policy.Env, p.passable(), table.Env), p.command.Env)
	e.TTY, e.Rows, e.Cols = p.command.TTY, p.command.Rows, p.command.Cols
	if p.policy.Env.KeepAll {
		p.notice("the whole environment is passed on, secrets too (--keep-env)")
	}
	return nil
}

// view writes down by what files are kept out of reach.
func (p *fileCompiler) view() {
	l, r := p.plan.Ledger, p.plan.ruleset
	if p.tier == tierNoNS {
		details := fmt.Sprintf("Landlock ABI %d; %s", r.ABI, r.Details())
		switch {
		case !r.Held():
			l.Missing(status.Filesystem, p.why.reason, "the target sees the caller's files as the caller does, and there is no Landlock")
		case len(r.Limits) > 0:
			l.Partial(status.Filesystem, "landlock", p.why.reason, details)
		default:
			l.Fallback(status.Filesystem, "landlock", p.why.reason, details)
		}
		return
	}
	l.Enforced(status.Filesystem, "mount_namespace", "pivot_root into an allowlisted tree")
	t := p.plan.table
	if t.DenyAtStart {
		l.Note(status.Filesystem, "in writable trees and overlays --deny hides what is there at the start, not what is made later")
	}
	if t.SocketsLater {
		l.Note(status.Filesystem, "a FIFO in a tree that is shown leads to whoever has it open outside")
	}
	if t.ProtectsLess {
		l.Note(status.Filesystem, "not all that other programs obey is protected")
	}
	if t.SocketsLater && !r.HoldsSockets() {
		l.Note(status.Filesystem, "a unix socket that comes to be outside, or is another network's, in a tree that is shown, can be connected to (before Linux 7.1)")
		if t.SocketsMissed != "" {
			l.Note(status.Filesystem, "one that is there may not be hidden: "+t.SocketsMissed)
		}
	}
	switch {
	case !p.policy.Filesystem.Landlock:
	case !r.Held():
		// The namespace holds by itself: what was asked for is there, once.
		l.Fallback(status.Filesystem, "mount_namespace", status.LandlockMissing, l[status.Filesystem].Details)
		l.Note(status.Filesystem, "no Landlock below it")
	case r.Details() != "":
		l.Note(status.Filesystem, "Landlock below it, but not everywhere: "+r.Details())
	default:
		l.Note(status.Filesystem, "Landlock below it")
	}
}

// rootfs writes down what becomes of --rootfs.
func (p *fileCompiler) rootfs() {
	l := p.plan.Ledger
	switch {
	case p.tier == tierNoNS && p.plan.ruleset.Held():
		l.Missing(status.Rootfs, p.why.reason, "no other root without a mount namespace; of the host's own only what is named is open")
	case p.tier == tierNoNS:
		l.Missing(status.Rootfs, p.why.reason, "the target sees the caller's files as the caller does")
	case p.plan.Box.Root.ReadOnly:
		l.Enforced(status.Rootfs, "read_only_bind", "read-only; what the tree has no place for is left out")
	case p.plan.Box.Root.Sealed:
		l.Enforced(status.Rootfs, "overlayfs", "read-only")
	default:
		l.Enforced(status.Rootfs, "overlayfs", "what is written to it is thrown away")
	}
}

// overlays says what becomes of what is written to them. A rename(2) of a directory that was there gives EXDEV, since an
// overlay with userxattr has no redirect_dir.
func (p *fileCompiler) overlays() {
	l, t := p.plan.Ledger, p.plan.table
	if p.tier != tierNoNS {
		p.plan.Overlays = t.Overlays
		if len(t.Overlays) > 0 && p.policy.Filesystem.Keep {
			p.keep()
		}
	}
	if !p.policy.HasOverlay() {
		return
	}
	if p.tier == tierNoNS {
		l.Ask(status.Overlay, "any")
		l.Missing(status.Overlay, p.why.reason, "there is no mount namespace")
		return
	}
	var trees []string
	for _, o := range p.plan.Overlays {
		trees = append(trees, o.Path)
	}
	readOnly := p.nestedTrees()
	asked := strings.Join(slices.Concat(trees, readOnly), ",")
	l.Ask(status.Overlay, asked)
	switch {
	case t.NoHome != "":
		l.Ask(status.Overlay, strings.TrimPrefix(asked+",--ephemeral-home", ","))
		mechanism := "overlayfs"
		if len(trees) == 0 {
			mechanism = "none"
		}
		l.Partial(status.Overlay, mechanism, status.HomeUnusable, "no home directory: "+t.NoHome)
		return
	case len(trees) == 0 && len(readOnly) > 0:
		l.Enforced(status.Overlay, "read_only_bind", "nothing can be written")
		return
	case len(trees) == 0:
		l.Unasked(status.Overlay, "none", "no tree is shown as one")
		return
	case p.plan.Keep == "":
		l.Enforced(status.Overlay, "overlayfs", "changes are told, and thrown away")
	default:
		l.Enforced(status.Overlay, "overlayfs", "changes are told, and kept for diff, apply and discard")
	}
	l.Note(status.Overlay, "rename(2) of a directory that was there gives EXDEV, so that it is copied")
	if len(t.Beside) > 0 {
		l.Note(status.Overlay, "read-only, because they are mounts of their own: "+strings.Join(t.Beside, ", "))
	}
}

// keep finds where changes are kept, and what of them isn't taken over unasked.
func (p *fileCompiler) keep() {
	dir, err := changes.StoreDir(p.command.env)
	if err == nil {
		err = p.command.reaches(p.policy, "kept runs", dir)
	}
	if err != nil {
		dir = ""
		why, remedy := hint.Split(err)
		p.notice("what is written to overlays can't be kept: " + strings.TrimSuffix(why+"; "+remedy, "; "))
	}
	p.plan.Keep = dir
	p.plan.Protect = slices.Clone(p.policy.Filesystem.Protect)
	for _, name := range p.command.ConfigFiles {
		if abs, err := filepath.Abs(name); err == nil {
			p.plan.Protect = append(p.plan.Protect, abs)
		}
		if real, err := filepath.EvalSymlinks(name); err == nil {
			p.plan.Protect = append(p.plan.Protect, real)
		}
	}
}

// nestedHint is what to do about a mount below a tree that is to be an overlay.
const nestedHint = "unmount it, or make overlays (--overlay) of directories that have no mounts below them"

// nested writes down which overlays are read-only because of what is mounted below them. They
// are accepted like others that the kernel refuses, after all else: less can be done than was asked for,
// not more. A policy that requires them is refused.
func (p *fileCompiler) nested() error {
	l := p.plan.Ledger
	var trees []string
	root, asked := false, false
	for _, n := range p.plan.table.Nested {
		switch {
		case n.Path == p.plan.Box.Root.Src && p.plan.Box.Root.ReadOnly:
			root = true
			continue
		case n.Asked:
			asked = true
			trees = append(trees, n.Path+" ("+n.Mount+" is mounted below)")
		default:
			trees = append(trees, n.Path)
		}
	}
	var weaker []status.Capability
	if len(trees) > 0 {
		weaker = append(weaker, status.Filesystem)
		l.Weaken(status.Filesystem, status.OverlayNestedMount, "what was to be an overlay is read-only")
	}
	if asked {
		weaker = append(weaker, status.Overlay)
		l.Weaken(status.Overlay, status.OverlayNestedMount, "read-only: "+strings.Join(trees, ", "))
	}
	if root {
		weaker = append(weaker, status.Rootfs)
		l.Weaken(status.Rootfs, status.OverlayNestedMount, "")
	}
	for _, c := range weaker {
		if config.Requires(p.policy, c) {
			e := l[c]
			return &config.Unenforceable{Capability: c, Requested: e.Requested, Reason: e.FallbackReason, Details: e.Details, Hint: nestedHint, Ledger: l}
		}
	}
	return nil
}

// nestedTrees are those that the caller wanted as overlays.
func (p *fileCompiler) nestedTrees() (trees []string) {
	for _, n := range p.plan.table.Nested {
		if n.Asked && n.Path != p.plan.Box.Root.Src {
			trees = append(trees, n.Path)
		}
	}
	return trees
}

// places of the caller's, by variables that profiles pass on: in another tree
// there is something else, or nothing. One that is set (--env K=V) is set.
var places = [...]string{"PYTHONPATH", "VIRTUAL_ENV", "COVERAGE_PROCESS_START", "COVERAGE_FILE", "PYENV_*", "CONDA_*", "NODE_PATH", "NVM_*",
	"JAVA_HOME", "SDKMAN_DIR", "GOROOT", "GOPATH", "GOTOOLCHAIN", "CARGO_HOME", "RUSTUP_*", "PERL5LIB", "RUBYLIB", "GEM_*", "ASDF_*", "MISE_*"}

// passable is what of the caller's environment can be passed on.
func (p *fileCompiler) passable() []string {
	if p.policy.Filesystem.Rootfs == "" {
		return p.command.Environ
	}
	return slices.DeleteFunc(slices.Clone(p.command.Environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return config.Passes(places[:], name)
	})
}

// withoutMountNS gives a target that sees the caller's files one directory in the place of all that it would have had of
// its own.
func (p *fileCompiler) withoutMountNS() error {
	c, e, table := &p.plan.Box, &p.plan.Exec, p.plan.table
	if err := p.command.reaches(p.policy, "TMPDIR", os.TempDir()); err != nil {
		return err
	}
	c.TempDir = filepath.Join(os.TempDir(), "confine-"+rand.Text())
	c.Root, c.Mounts, e.Dir = handoff.Mount{}, nil, p.command.Dir
	if dir := p.policy.Filesystem.Chdir; dir != "" {
		e.Dir = filepath.Join(e.Dir, dir)
		if filepath.IsAbs(dir) {
			e.Dir = dir
		}
	} else if p.policy.Filesystem.Workdir == "none" {
		e.Dir = c.TempDir
	}
	table.Env["HOME"], table.Env["TMPDIR"], table.Dir = c.TempDir, c.TempDir, e.Dir
	delete(table.Env, "PATH") // as it is
	for _, name := range table.Caches {
		table.Env[name] = filepath.Join(c.TempDir, strings.ToLower(name))
	}
	return nil
}

// withEnv is an environment with further variables, of which the last of a name counts.
func withEnv(env, further []string) []string {
	if len(further) == 0 {
		return env
	}
	env = slices.Clone(env)
	for _, v := range further {
		name, _, _ := strings.Cut(v, "=")
		env = append(slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }), v)
	}
	return env
}

// startHint: --allow-read, as it is said of a place to start that isn't visible, contradicts --virtual-fs.
func (p *fileCompiler) startHint(err error) error {
	var e *view.Error
	if !p.policy.Filesystem.Virtual || !errors.As(err, &e) || e.Option != "--chdir" || !errors.Is(e.Err, view.ErrNotVisible) {
		return err
	}
	other := *e
	other.Hint = "with --virtual-fs only mounts are visible: --chdir takes the DST of one, or a directory below"
	return &other
}
