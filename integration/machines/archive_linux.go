package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// archive is Debian's, through an apt with a configuration, lists and a state of
// its own.
type archive struct {
	dir   string
	sites map[bool]string    // for security, and for all the rest
	found map[string]version // by pattern or name
}

// security says that the suite has a site of its own.
func (s suite) security() bool { return strings.HasSuffix(string(s), "-security") }

// version is the highest one that there is of a package.
type version struct{ Name, Version string }

// fresh is for how long the archive isn't asked again.
const fresh = 24 * time.Hour

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// source is a suite's line in a list of sources. An old suite isn't signed anew any more.
func (a *archive) source(s suite) string {
	return "deb [signed-by=" + keyring + " check-valid-until=no] " + a.sites[s.security()] + " " + string(s) + " main"
}

// sitesOf finds Debian's sites among what apt has for its sources: a line each
// of release and site.
func sitesOf(sources string) (map[bool]string, error) {
	sites := map[bool]string{}
	for line := range strings.Lines(sources) {
		release, site, _ := strings.Cut(strings.TrimSpace(line), " ")
		codename, _, _ := strings.Cut(release, "-")
		forSecurity := suite(release).security()
		if _, ok := sites[forSecurity]; !ok && slices.Contains(suites, suite(codename)) {
			sites[forSecurity] = site
		}
	}
	if len(sites) != 2 {
		return nil, unavailable{errors.New("apt's sources name no site of Debian's with its security updates")}
	}
	return sites, nil
}

func openArchive(c *cache) (*archive, error) {
	if _, err := os.Stat(keyring); err != nil {
		return nil, unavailable{fmt.Errorf("%w\nhint: apt-get install debian-archive-keyring", err)}
	}
	a := &archive{found: map[string]version{}}
	sources, err := output("", "apt-get", "indextargets", "--format", "$(RELEASE) $(SITE)", "Created-By: Packages")
	if err != nil {
		return nil, unavailable{err}
	}
	if a.sites, err = sitesOf(sources); err != nil {
		return nil, err
	}
	var list strings.Builder
	for _, s := range suites {
		list.WriteString(a.source(s) + "\n")
	}
	name, err := digest(list.String(), kernels, disk.packages)
	if err != nil {
		return nil, err
	}
	a.dir, err = c.get("apt", name, func(dir string) error { return makeConfiguration(dir, list.String()) })
	if err != nil {
		return nil, err
	}
	found := filepath.Join(a.dir, "found.json")
	text, readErr := os.ReadFile(found)
	if st, err := os.Stat(found); err == nil && readErr == nil && time.Since(st.ModTime()) < fresh {
		return a, json.Unmarshal(text, &a.found)
	}
	if err := a.look(); err != nil {
		if readErr != nil {
			return nil, unavailable{err}
		}
		fmt.Fprintln(os.Stderr, "machines: what is known of the archive is old:", err)
		return a, json.Unmarshal(text, &a.found)
	}
	if text, err = json.Marshal(a.found); err != nil {
		return nil, err
	}
	return a, os.WriteFile(found, text, 0o644)
}

// look asks the archive for all that the machines need.
func (a *archive) look() error {
	if _, err := a.apt("", "apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update"); err != nil {
		return err
	}
	names, err := a.apt("", "apt-cache", "pkgnames", "linux-image-")
	if err != nil {
		return err
	}
	wanted := map[string]string{} // name to what it is found by
	for _, k := range kernels {
		name, err := newest(strings.Fields(names), k.pattern)
		if err != nil {
			return err
		}
		wanted[name] = k.pattern
	}
	for _, name := range disk.packages {
		wanted[name] = name
	}
	args := append([]string{"show", "--no-all-versions"}, slices.Sorted(maps.Keys(wanted))...)
	shown, err := a.apt("", "apt-cache", args...)
	if err != nil {
		return err
	}
	var name string
	for line := range strings.Lines(shown) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Package":
			name = value
		case "Version":
			a.found[wanted[name]] = version{name, value}
		}
	}
	if len(a.found) != len(wanted) {
		return fmt.Errorf("apt-cache show told %d packages of %d", len(a.found), len(wanted))
	}
	return nil
}

// makeConfiguration makes no mention of where it lies, because it is moved: the
// directories are said on the command line.
func makeConfiguration(dir, list string) error {
	var errs []error
	for _, sub := range []string{"state/lists/partial", "cache/archives/partial"} {
		errs = append(errs, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	return errors.Join(append(errs, os.WriteFile(filepath.Join(dir, "sources.list"), []byte(list), 0o644))...)
}

// apt runs one of apt's programs.
func (a *archive) apt(dir, program string, args ...string) (string, error) {
	for _, set := range []string{
		"Dir::State=" + a.dir + "/state", "Dir::Cache=" + a.dir + "/cache", "Dir::Etc::sourcelist=" + a.dir + "/sources.list",
		"Dir::Etc::sourceparts=-", "Dir::State::status=/dev/null", "APT::Sandbox::User=", "APT::Architecture=amd64",
		"Acquire::Languages=none", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false", "Acquire::Retries=2",
	} {
		args = append([]string{"-o", set}, args...)
	}
	return output(dir, program, args...)
}

// output runs a program, and has what it said in the error.
func output(dir, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", program, err, out, errs.String())
	}
	return string(out), nil
}

// newest is the name with the highest version in it.
func newest(names []string, pattern string) (name string, err error) {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return "", err
	}
	for _, n := range names {
		if matches.MatchString(n) && (name == "" || slices.Compare(numbers(name), numbers(n)) < 0) {
			name = n
		}
	}
	if name == "" {
		return "", fmt.Errorf("the archive has no package %s", pattern)
	}
	return name, nil
}

// numbers are those in a name, in turn.
func numbers(name string) (ns []int) {
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(word)
		ns = append(ns, n)
	}
	return ns
}

// download puts the package into the directory.
func (a *archive) download(dir string, v version) (string, error) {
	if _, err := a.apt(dir, "apt-get", "-q", "download", v.Name+"="+v.Version); err != nil {
		return "", unavailable{err}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("apt-get download %s made %q", v.Name, files)
	}
	return files[0], nil
}
