package confine

import (
	"path/filepath"
	"slices"
	"strconv"

	"github.com/confine-run/confine/confine/names"
	"github.com/confine-run/confine/confine/view"
	"github.com/confine-run/confine/internal/changes"
)

// RealDir is where the name of a directory leads that confine itself is to write to: for a report,
// or events. Whoever opens it follows no symbolic link any more. A name that a link in a tree of
// work would lead elsewhere is an error.
func (r *Resolved) RealDir(src *Sources, name string) (string, error) {
	env := func(name string) string { return lookupEnv(src.Environ, name) }
	if !filepath.IsAbs(name) {
		name = src.Dir + "/" + name
	}
	real, err := namesOf(&r.Policy, src.Dir, r.Protected, env).Real(name, true)
	if err != nil {
		return "", &UsageError{Msg: err.Error(), Hint: names.LinkHint(err), Err: err}
	}
	return real, nil
}

func namesOf(policy *Policy, dir string, files []string, env func(string) string) *names.Names {
	in := view.Input{Filesystem: policy.Filesystem, Caller: view.Caller{ConfigFiles: files, Dir: dir, HomeDir: env("HOME"), Env: env}}
	return names.NewNames(&in)
}

// reaches refuses a file of a policy that a link in a tree of work leads to.
func (c *Command) reaches(policy *Policy, option, name string) error {
	others := slices.DeleteFunc(slices.Clone(c.ConfigFiles), func(f string) bool { return f == name })
	if _, err := namesOf(policy, c.Dir, others, c.env).Real(name, false); err != nil {
		return throughLink(option, name, err)
	}
	return nil
}

// StoreDir is where runs are kept.
func (src *Sources) StoreDir() (string, error) {
	dir, err := changes.StoreDir(func(name string) string { return lookupEnv(src.Environ, name) })
	if err != nil {
		return "", err
	}
	return dir, src.reaches("kept runs", dir)
}

// reaches refuses a policy file, or a place where confine keeps something, that a link in the current directory, or in a checkout, leads to.
func (src *Sources) reaches(option, name string) error {
	if !filepath.IsAbs(name) {
		name = src.Dir + "/" + name
	}
	in := view.Input{Caller: view.Caller{Dir: src.Dir, HomeDir: src.Home}}
	if _, err := names.NewNames(&in).Real(name, false); err != nil {
		return throughLink(option, name, err)
	}
	return nil
}

func throughLink(option, name string, err error) error {
	return &UsageError{Msg: option + " " + strconv.Quote(name) + ": " + err.Error(), Hint: names.LinkHint(err), Err: err}
}
