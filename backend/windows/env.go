package windows

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/confine-run/confine/internal/config"
)

// essential are variables without which programs of Windows don't start, or don't find the system. They name no secret, and are
// passed whatever the policy says.
var essential = [...]string{
	"SystemRoot", "SystemDrive", "windir", "ComSpec", "PATHEXT", "NUMBER_OF_PROCESSORS", "OS", "PROCESSOR_ARCHITECTURE",
	"ProgramData", "ProgramFiles", "ProgramFiles(x86)", "ProgramW6432", "CommonProgramFiles", "CommonProgramFiles(x86)", "CommonProgramW6432",
}

// variables have names in which case doesn't count. The last one counts.
type variables struct {
	names []string // as they were spelt first
	at    map[string]int
	value []string
}

func (v *variables) set(name, value string) {
	if v.at == nil {
		v.at = map[string]int{}
	}
	key := strings.ToUpper(name)
	if i, ok := v.at[key]; ok {
		v.value[i] = value
		return
	}
	v.at[key] = len(v.names)
	v.names, v.value = append(v.names, name), append(v.value, value)
}

func (v *variables) setAll(list []string) {
	for _, e := range list {
		if name, value, ok := cutVariable(e); ok {
			v.set(name, value)
		}
	}
}

// list is sorted as Windows wants it: by the names in capitals.
func (v *variables) list() []string {
	all := make([]string, len(v.names))
	for i, name := range v.names {
		all[i] = name + "=" + v.value[i]
	}
	slices.SortFunc(all, func(a, b string) int {
		x, _, _ := cutVariable(a)
		y, _, _ := cutVariable(b)
		return cmp.Compare(strings.ToUpper(x), strings.ToUpper(y))
	})
	return all
}

// cutVariable takes NAME=VALUE apart. A name that begins with "=" is a current directory of a drive, which nobody else has a use for,
// and a NUL would end the block.
func cutVariable(e string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(e, "=")
	return name, value, ok && name != "" && strings.IndexByte(e, 0) < 0
}

// environment is built from nothing: what the policy passes of the caller's and what programs can't live without, then what the
// sandbox says, then what the policy sets.
func environment(p *config.Env, caller []string, sandbox map[string]string) []string {
	var v variables
	pass := make([]string, 0, len(p.Pass))
	for _, name := range p.Pass {
		pass = append(pass, strings.ToUpper(name))
	}
	for _, e := range caller {
		name, value, ok := cutVariable(e)
		if !ok || strings.HasPrefix(strings.ToUpper(name), "CONFINE_") {
			continue
		}
		known := slices.ContainsFunc(essential[:], func(n string) bool { return strings.EqualFold(n, name) })
		if known || p.KeepAll || config.Passes(pass, strings.ToUpper(name)) {
			v.set(name, value)
		}
	}
	for _, m := range []map[string]string{sandbox, p.Set} {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			v.set(name, m[name])
		}
	}
	return v.list()
}

// withEnv lays variables over others.
func withEnv(base, more []string) []string {
	var v variables
	v.setAll(base)
	v.setAll(more)
	return v.list()
}

// lookup is the value of a variable.
func lookup(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if n, value, ok := cutVariable(e); ok && strings.EqualFold(n, name) {
			return value
		}
	}
	return ""
}

// block is an environment as CreateProcess takes it.
func block(env []string) []uint16 {
	var b []uint16
	for _, e := range env {
		b = append(append(b, utf16.Encode([]rune(e))...), 0)
	}
	if len(b) == 0 {
		b = append(b, 0)
	}
	return append(b, 0)
}
