package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/view"
)

// RealDir is where the name of a directory leads that confine itself is to write to: for a report,
// or events. Whoever opens it follows no symbolic link any more. A name that a link in a tree of
// work would lead elsewhere is an error.
func (r *Resolved) RealDir(src *Sources, name string) (string, error) {
	real, err := NamesOf(&r.Policy, src.Dir, r.Protected, src.env).Real(src.abs(name), true)
	if err != nil {
		return "", &UsageError{Msg: err.Error(), Hint: names.LinkHint(err), Err: err}
	}
	return real, nil
}

// NamesOf knows the trees of work of a policy, whose links decide nothing, and further ones.
func NamesOf(policy *Policy, dir string, files []string, env func(string) string, work ...string) *names.Names {
	in := view.Input{Filesystem: policy.Filesystem, Caller: view.Caller{ConfigFiles: files, Dir: dir, HomeDir: env("HOME"), Env: env, Work: work}}
	return names.NewNames(&in)
}

// StoreDir is where runs are kept.
func (src *Sources) StoreDir() (string, error) {
	dir, err := changes.StoreDir(src.env)
	if err != nil {
		return "", err
	}
	return dir, src.refuseLink("kept runs", dir)
}

// refuseLink refuses the name of a policy file, or of a place where confine keeps something, that leads through a link
// in the current directory or in a checkout.
func (src *Sources) refuseLink(option, name string) error {
	name = src.abs(name)
	in := view.Input{Caller: view.Caller{Dir: src.Dir, HomeDir: src.Home}}
	if _, err := names.NewNames(&in).Real(name, false); err != nil {
		return ThroughLink(option, name, err)
	}
	return nil
}

// abs doesn't clean: ".." of a link is above what it leads to.
func (src *Sources) abs(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return src.Dir + "/" + name
}

// ThroughLink is the mistake that a name is which a link in a tree of work leads elsewhere.
func ThroughLink(option, name string, err error) error {
	return &UsageError{Msg: option + " " + strconv.Quote(name) + ": " + err.Error(), Hint: names.LinkHint(err), Err: err}
}

// LookupEnv gives the last value of name, as execve's users see it.
func LookupEnv(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if e := environ[i]; len(e) > len(name) && e[len(name)] == '=' && e[:len(name)] == name {
			return e[len(name)+1:]
		}
	}
	return ""
}

// Bounds of a pattern. Who writes one may be somebody whose sandbox it is for, and it is matched outside of that: each way to choose among its braces is tried
// with each name, and those of one brace after the other multiply.
const (
	maxPattern = 4096 // bytes
	maxChoices = 1024
)

// CheckPattern says what is wrong with a pattern of names.
func CheckPattern(word string) error {
	if len(word) > maxPattern {
		return fmt.Errorf("is a pattern of more than %d bytes", maxPattern)
	}
	if !doublestar.ValidatePattern(word) {
		return errors.New("is not a valid pattern")
	}
	if n, _ := choices(word, 0); n > maxChoices {
		return fmt.Errorf("is a pattern that stands for more than %d others: those of its braces multiply", maxChoices)
	}
	return nil
}

// choices is how many patterns without braces one stands for, up to the brace that closes what it begins in, and where that is. What is in brackets has no braces
// for whoever matches it, and counts as if it had.
func choices(word string, from int) (n, end int) {
	sum, product := 0, 1
	for i := from; i < len(word); i++ {
		switch word[i] {
		case '\\':
			i++
		case ',':
			if from > 0 {
				sum, product = min(sum+product, maxChoices+1), 1
			}
		case '{':
			var inner int
			inner, i = choices(word, i+1)
			product = min(product*inner, maxChoices+1)
		case '}':
			if from > 0 {
				return min(sum+product, maxChoices+1), i
			}
		}
	}
	return min(sum+product, maxChoices+1), len(word)
}
