// Command packaging makes of programs that "make cross" has built what is handed out: an archive for each platform, a deb and an rpm for those of
// Linux, and SHA256SUMS. It is a module of its own, so that nfpm is no dependency of confine's.
//
// The same programs give the same bytes: names are in an order, nothing has an owner, and every time is that of the commit, or SOURCE_DATE_EPOCH.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is what all packages have in common.
type release struct {
	root, programs, out string // of directories: the checkout, what make cross has built, and where packages go
	version             string // without v
	time                time.Time
	made                []string // names in out
}

// platform is one of GOOS and GOARCH.
type platform struct{ os, arch string }

// programs are those that do something on a system: elsewhere than on Linux no subcommand leads to another one.
func (p platform) programs() []string {
	if p.os == "linux" {
		return []string{"confine", "confine-server", "confine-vm", "confine-wasm", "confine-worker"}
	}
	return []string{"confine"}
}

// file is one of a package.
type file struct {
	from   string // in this file system; of a link, what it says
	to     string // below the prefix, which is /usr, /usr/local or a directory of somebody's own
	mode   os.FileMode
	isLink bool
}

// files are those of a platform, in the order of their names.
func (r *release) files(p platform) []file {
	suffix := ""
	if p.os == "windows" {
		suffix = ".exe"
	}
	files := []file{
		{from: "LICENSE", to: "share/doc/confine/LICENSE"},
		{from: "README.md", to: "share/doc/confine/README.md"},
		{from: "docs/confine.1", to: "share/man/man1/confine.1"},
		{from: "internal/cli/shells/completion.bash", to: "share/bash-completion/completions/confine"},
		{from: "internal/cli/shells/completion.fish", to: "share/fish/vendor_completions.d/confine.fish"},
		{from: "internal/cli/shells/completion.zsh", to: "share/zsh/site-functions/_confine"},
	}
	for i := range files {
		files[i].from, files[i].mode = filepath.Join(r.root, files[i].from), 0o644
	}
	for _, name := range p.programs() {
		from := filepath.Join(r.programs, name+"-"+p.os+"-"+p.arch+suffix)
		files = append(files, file{from: from, to: "bin/" + name + suffix, mode: 0o755})
	}
	if p.os == "linux" {
		files = append(files, file{from: "confine-server", to: "bin/confine-oci", mode: 0o777, isLink: true})
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.to, b.to) })
	return files
}

// describe takes the version and the time from a program, which has them where it was built in a clone.
func (r *release) describe(p platform, version, epoch string) error {
	program := r.files(p)[0].from
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	r.version = strings.TrimPrefix(cmp.Or(version, info.Main.Version), "v")
	for _, s := range info.Settings {
		if s.Key == "vcs.time" && epoch == "" {
			r.time, err = time.Parse(time.RFC3339, s.Value)
		}
	}
	if epoch != "" {
		var seconds int64
		seconds, err = strconv.ParseInt(epoch, 10, 64)
		r.time = time.Unix(seconds, 0)
	}
	if r.time = r.time.UTC(); err != nil {
		return err
	}
	if r.version == "(devel)" || r.time.IsZero() {
		return errors.New(program + " doesn't say which commit it is of: build it in a clone of the repository, or say VERSION=… and SOURCE_DATE_EPOCH=…")
	}
	return nil
}

// make writes a package, under its name at once.
func (r *release) make(name string, write func(io.Writer) error) error {
	path := filepath.Join(r.out, name)
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", name, err), os.Remove(f.Name()))
	}
	r.made = append(r.made, name)
	return os.Rename(f.Name(), path)
}

// sums writes what sha256sum -c reads.
func (r *release) sums(w io.Writer) error {
	slices.Sort(r.made)
	for _, name := range r.made {
		text, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%x  %s\n", sha256.Sum256(text), name); err != nil {
			return err
		}
	}
	return nil
}

func run() error {
	r := &release{}
	flag.StringVar(&r.root, "root", "..", "the checkout")
	flag.StringVar(&r.programs, "programs", "../dist", "what make cross has built")
	flag.StringVar(&r.out, "out", "../dist/packages", "where packages go; what was there is removed")
	version := flag.String("version", "", "instead of the one in the programs")
	flag.Parse()
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil {
		return err
	}
	for _, word := range flag.Args() {
		var p platform
		var ok bool
		if p.os, p.arch, ok = strings.Cut(word, "/"); !ok {
			return fmt.Errorf("%q is no GOOS/GOARCH", word)
		}
		if err := r.describe(p, *version, os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
			return err
		}
		if err := r.archive(p); err != nil {
			return err
		}
		if p.os == "linux" {
			if err := r.packages(p); err != nil {
				return err
			}
		}
	}
	return r.make("SHA256SUMS", r.sums)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}
