package rootfs

import (
	"testing"

	"github.com/confine-run/confine/confine/hide"
	"github.com/confine-run/confine/confine/hostfs/hosttest"
	"github.com/confine-run/confine/confine/secrets"
)

func TestDenies(t *testing.T) {
	t.Parallel()
	h := hosttest.Debian(t, "/data/d/sub/x.key=1", "/home/u/l -> /data/d", "/home/u/p/x.key=1", "/data/[d]/x.key=1")
	for _, c := range []struct {
		word, name string
		want       bool
	}{
		{"/data/d/sub/x.key", "/data/d/sub/x.key", true}, {"/data/d", "/data/d/sub/x.key", true}, {"/data/d/", "/data/d/sub/x.key", true},
		{"/data/d/**/*.key", "/data/d/sub/x.key", true}, {"/data/**", "/data/d/sub/x.key", true}, {"/data/*", "/data/d/sub/x.key", true},
		{"/home/u/l", "/data/d/sub/x.key", true}, {"/home/u/l/**/*.key", "/data/d/sub/x.key", true}, {"*.key", "/home/u/p/x.key", true}, {"/**/*.key", "/home/u/p/x.key", true},
		{"/data/[d]", "/data/[d]/x.key", true}, {"/data/[[]d]/*.key", "/data/[d]/x.key", true},
		{"*.key", "/data/d/sub/x.key", false}, {"/data/d/*.key", "/data/d/sub/x.key", false}, {"/data/e", "/data/d/sub/x.key", false},
		{"/data/d/sub/x", "/data/d/sub/x.key", false}, {secrets.Set, "/home/u/p/x.key", false},
	} {
		if got := hide.Denies(h, []string{"/nothing", c.word}, "/home/u/p", c.name); got != c.want {
			t.Errorf("--deny %s: %s: %v", c.word, c.name, got)
		}
	}
}
