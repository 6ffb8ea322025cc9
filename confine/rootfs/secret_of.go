package rootfs

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/confine-run/confine/confine/hostfs"
)

// HidesInEtc says whether a path is, lies in or holds what is hidden of /etc.
func HidesInEtc(name string) bool {
	return slices.ContainsFunc(etcHidden[:], func(h struct{ name, reason string }) bool {
		return hostfs.Under(name, "/etc/"+h.name) || hostfs.Under("/etc/"+h.name, name)
	})
}

// SecretOf says what a canonical path is, if the set of secrets has it: by its place in
// one of the homes, or by its name and what it holds. It is empty for anything else.
func SecretOf(h hostfs.Host, at string, homes ...string) string {
	for i := range secrets {
		rest, ok := strings.CutPrefix(secrets[i].Pattern, inHomes)
		if !ok {
			continue
		}
		for _, home := range homes {
			if home != "" && hostfs.Under(at, path.Join(home, rest)) {
				return secrets[i].Reason
			}
		}
	}
	names := secretNames()
	for dir := path.Dir(at); dir != "/" && dir != "."; dir = path.Dir(dir) {
		if s := names.match(dir); s != nil && strings.HasPrefix(s.Pattern, inHomes) {
			return s.Reason
		}
	}
	s := names.match(at)
	inTests := slices.ContainsFunc(strings.Split(path.Dir(at), "/"), func(dir string) bool { return slices.Contains(testDirs[:], dir) })
	if s == nil || inTests && s.Reason == whyKeys {
		return ""
	}
	if f, err := h.Lstat(at); err != nil || f.Mode.Type() != 0 {
		return ""
	}
	if s.Holds == "" {
		return s.Reason
	}
	text, err := h.ReadFile(at, maxHolds)
	if strings.Contains(text, s.Holds) || errors.Is(err, fs.ErrPermission) || err != nil && !errors.Is(err, syscall.EFBIG) {
		return s.Reason
	}
	return ""
}
