package config

import (
	"cmp"
	"slices"
	"strings"
)

// What a policy is where somebody else than its user builds the sandbox: a server, or a worker of a queue.

// LoadCeiling is what no policy may be wider than: that of a profile, or of a file, with the files that it was read from.
func LoadCeiling(src Sources, word string) (p *Policy, files []string, err error) {
	if slices.Contains(Profiles(), word) {
		p, err := Profile(word)
		return &p, nil, err
	}
	src.Environ = nil
	src.Flags = []Setting{{Option: "config", Values: []string{word}, Source: "--ceiling"}}
	r, err := Resolve(src)
	if err != nil {
		return nil, nil, err
	}
	return &r.Policy, r.Protected, nil
}

// Harmless is what of an environment policies may pass: what processes need to find their way, and nothing that is a secret.
func Harmless(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return !strings.HasPrefix(name, "LC_") && !slices.Contains([]string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "SHELL", "TERM"}, name)
	})
}

// WithoutDir makes it one of a sandbox that has no directory of its user's: processes start in a private place.
func (p *Policy) WithoutDir() *UsageError {
	f := &p.Filesystem
	if f.WorkdirAsked && f.Workdir != "none" {
		return &UsageError{Msg: "workdir says how dir appears, and there is no dir"}
	}
	f.Workdir, f.WorkdirAsked, f.TempDir = "none", false, true
	f.Chdir = cmp.Or(f.Chdir, "/tmp")
	return nil
}

// Hiding is the policy, with these paths hidden, too. That of nil is nil.
func (p *Policy) Hiding(paths []string) *Policy {
	if p == nil {
		return nil
	}
	literal := strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`, `\`, `\\`) // a pattern that stands for one path
	q := *p
	q.Filesystem.Deny = slices.Clone(q.Filesystem.Deny)
	for _, path := range paths {
		q.Filesystem.Deny = append(q.Filesystem.Deny, literal.Replace(path))
	}
	return &q
}
