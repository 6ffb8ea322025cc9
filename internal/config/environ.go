package confine

import (
	"sort"
	"strings"
)

// environment builds what the target gets from nothing: what the policy passes
// of the caller's, then what the sandbox says (HOME, TMPDIR, PATH, tool chains),
// then what the policy sets. Later beats earlier. The result is sorted.
func environment(p *Env, caller []string, sandbox map[string]string) []string {
	values := map[string]string{}
	for _, e := range caller {
		name, value, ok := strings.Cut(e, "=")
		if ok && name != "" && (p.KeepAll || passes(p.Pass, name)) && !strings.HasPrefix(name, envPrefix) {
			values[name] = value
		}
	}
	for name, value := range sandbox {
		values[name] = value
	}
	for name, value := range p.Set {
		values[name] = value
	}
	list := make([]string, 0, len(values))
	for name, value := range values {
		list = append(list, name+"="+value)
	}
	sort.Strings(list)
	return list
}

// passes: a name ending in * stands for all that begin so.
func passes(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
		if prefix, ok := strings.CutSuffix(n, "*"); ok && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
