package rootfs

import "path"

// Obeyed finds what programs outside obey without its having a name that tells: what
// protected names lead to by symbolic links, and what git's configuration names.
type Obeyed struct {
	names []string
	home  string // canonical; "" if there is none
	git   git
}

// NewObeyed makes one for protected names, each relative to a tree or, with "~/", to home. home and env are the
// caller's.
func NewObeyed(host Host, names []string, home string, env func(string) string) *Obeyed {
	o := &Obeyed{names: names, git: git{host: host, env: env, home: home}}
	if f, err := host.Resolve(home); err == nil && path.IsAbs(home) && f.Path != "/" {
		o.home = f.Path
	}
	return o
}

// In gives the canonical paths that matter because of what is in a directory, itself
// canonical: links that lead to what is obeyed, and that, if it is there or not. top says that
// it is the top of a tree, which may lie in a repository or be one. complete says that
// nothing was left out.
func (o *Obeyed) In(dir string, top bool) (found []string, complete bool) {
	complete = true
	h := o.git.host
	for _, name := range o.names {
		rest, atHome := AtHome(name)
		if atHome && dir != o.home {
			continue
		}
		links, end := traceFrom(h, dir, rest)
		if len(links) > 0 {
			found = withTrace(found, links, end)
		}
		if end == "" || name == library {
			continue
		}
		inside, _, all := linksBelow(h, end)
		complete = complete && all
		for _, l := range inside {
			links, end := trace(h, l)
			found = withTrace(found, links, end)
		}
	}
	if !top && len(o.git.dirs(dir)) == 0 {
		return found, complete
	}
	names, all := o.git.obeyed(dir)
	for _, n := range names {
		links, end := trace(h, n.path)
		found = withTrace(found, links, end)
	}
	return found, complete && all
}

func withTrace(found []string, links []link, end string) []string {
	for _, l := range links {
		found = append(found, l.at)
	}
	if end != "" {
		found = append(found, end)
	}
	return found
}
