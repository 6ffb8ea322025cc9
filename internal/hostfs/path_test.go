package hostfs

import (
	"path"
	"testing"
)

func FuzzPaths(f *testing.F) {
	clean := func(p string) bool { return path.IsAbs(p) && path.Clean(p) == p }
	f.Add("/a/b", "/a", "/a.b")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if ComparePaths(a, b) != -ComparePaths(b, a) && (ComparePaths(a, b) < 0) == (ComparePaths(b, a) < 0) && a != b {
			t.Errorf("order of %q and %q", a, b)
		}
		if ComparePaths(a, b) < 0 && ComparePaths(b, c) < 0 && ComparePaths(a, c) >= 0 {
			t.Errorf("order of %q, %q, %q", a, b, c)
		}
		if clean(a) && clean(b) && clean(c) && Under(a, b) {
			if got := Rebase(a, b, c); !clean(got) || !Under(got, c) || Rebase(got, c, b) != a {
				t.Errorf("rebase(%q, %q, %q) = %q", a, b, c, got)
			}
			if ComparePaths(b, a) > 0 {
				t.Errorf("%q stands after %q", b, a)
			}
		}
	})
}
