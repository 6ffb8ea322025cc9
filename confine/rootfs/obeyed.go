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
		w := traceFrom(h, dir, rest)
		if len(w.links) > 0 {
			found = w.appendTo(found)
		}
		if w.end == "" || name == library {
			continue
		}
		inside, _, all := linksBelow(h, w.end)
		complete = complete && all
		for _, l := range inside {
			w := trace(h, l)
			found = w.appendTo(found)
		}
	}
	if !top && len(o.git.dirs(dir)) == 0 {
		return found, complete
	}
	names, all := o.git.obeyed(dir)
	for _, n := range names {
		w := trace(h, n.path)
		found = w.appendTo(found)
	}
	return found, complete && all
}

// appendTo adds the names of a way. Of a directory that it turns around in, it is what would be
// below a link in its place: that link leads on to something obeyed.
func (w *way) appendTo(found []string) []string {
	for _, l := range w.links {
		found = append(found, l.at)
	}
	for _, dir := range w.turns {
		found = append(found, dir+"/..")
	}
	if w.end != "" {
		found = append(found, w.end)
	}
	return found
}
