package rootfs

// Obeyed finds what programs outside obey without its having a name that tells: what
// protected names lead to by symbolic links, and what git's configuration names.
type Obeyed struct {
	names []string
	git   git
}

// NewObeyed makes one for protected names, each relative to a tree. home and env are the
// caller's.
func NewObeyed(host Host, names []string, home string, env func(string) string) *Obeyed {
	return &Obeyed{names, git{host: host, env: env, home: home}}
}

// In gives the canonical paths that matter because of what is in a directory, itself
// canonical: links that lead to what is obeyed, and that, if it is there or not. top says that
// it is the top of a tree, which may lie in a repository or be one. complete says that
// nothing was left out.
func (o *Obeyed) In(dir string, top bool) (found []string, complete bool) {
	complete = true
	h := o.git.host
	for _, name := range o.names {
		links, end := traceFrom(h, dir, name)
		if len(links) > 0 {
			found = withTrace(found, links, end)
		}
		if end == "" {
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
