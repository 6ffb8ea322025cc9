package changes

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// callersOwn are the caller's own files and links.
var callersOwn = map[string]string{"d/x": "1", "d/e/f/x": "1", "own@": "../outside", "ownabs@": "/etc", "inner@": "d/e", "hop@": "inner", "deep/own@": "../own", "loop@": "loop"}

func TestLinksThatLeadOutAreNotAppliedUnasked(t *testing.T) {
	for _, c := range []struct {
		name string
		made map[string]string
		out  []string // what leads out; without any, all is applied
	}{
		{"a program of node's", map[string]string{"node_modules/.bin/x@": "../x/cli.js", "node_modules/x/cli.js": "x"}, nil},
		{"a library", map[string]string{"lib.so.1.2": "x", "lib.so.1@": "lib.so.1.2", "lib.so@": "lib.so.1"}, nil},
		{"to the top", map[string]string{"d/top@": "..", "d/e/top@": "../..", "here@": "."}, nil},
		{"nowhere, and in a circle", map[string]string{"a@": "nothing/at/all", "b@": "c", "c@": "b"}, nil},
		{"absolute, in the tree", map[string]string{"a@": "TREE/d/x", "b@": "TREE", "c@": "TREE/"}, nil},
		{"through the caller's own that stays", map[string]string{"a@": "hop/f/x", "d/b@": "../inner"}, nil},

		{"absolute", map[string]string{"a@": "/etc/passwd", "b@": "/", "c@": "TREEX/d", "d2@": "//etc"}, []string{"a", "b", "c", "d2"}},
		{"above the top", map[string]string{"a@": "..", "d/b@": "../../outside", "d/c@": "./../.././x", "n/m/o@": "../../../x"}, []string{"a", "d/b", "d/c", "n/m/o"}},
		{"and back again", map[string]string{"a@": "../tree/d", "b@": "/proc/self/cwd"}, []string{"a", "b"}},
		{"through one of the same run", map[string]string{"a@": "b/k", "b@": "c", "c@": "../outside"}, []string{"a", "b", "c"}},
		{"through one that lies there", map[string]string{"a@": "own/k", "b@": "ownabs", "d/c@": "../deep/own/k", "e@": "hop/../../own"}, []string{"a", "b", "d/c", "e"}},
		{"that does so with another", map[string]string{"a@": "s/t/../../../x", "s/t@": "../d"}, []string{"a"}},
		{"that could do so with a later one", map[string]string{"a@": "d/e/../x"}, []string{"a"}},
		{"in the place of a directory", map[string]string{"d@": "../outside"}, []string{"d"}},
		{"below a new directory in the place of a link", map[string]string{"own/": "", "own/a@": "../d/x", "own/b@": "../../d"}, []string{"own/b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, callersOwn)
			made := map[string]string{}
			for at, target := range c.made {
				made[at] = strings.Replace(target, "TREE", s.lower, 1)
			}
			build(t, s.upper, made)
			r := s.keep(t)
			before := snapshotPath(t, s.lower)

			var document struct {
				Changes []struct {
					Path     string
					LeadsOut bool `json:"leads_out"`
				}
			}
			must(t, json.Unmarshal([]byte(diffOf(t, r, DiffOptions{JSON: true})), &document))
			var marked []string
			for _, ch := range document.Changes {
				if ch.LeadsOut {
					marked = append(marked, ch.Path)
				}
			}
			equal(t, marked, c.out)
			shown := diffOf(t, r, DiffOptions{})
			if n := strings.Count(shown, "(leads out of the tree)"); n != len(c.out) {
				t.Errorf("diff marks %d:\n%s", n, shown)
			}

			_, err := s.store.Apply(r, nil, Options{})
			if len(c.out) == 0 {
				must(t, err)
				return
			}
			var refused *RefusedError
			if !errors.As(err, &refused) || !strings.Contains(refused.Hint, "--allow-protected") {
				t.Fatalf("%v", err)
			}
			var named []string
			for _, x := range refused.Paths {
				named = append(named, strings.TrimPrefix(x.Path, s.lower+"/"))
				if !strings.Contains(x.Reason, "out of the tree") {
					t.Errorf("%+v", x)
				}
			}
			equal(t, named, c.out)
			if d := difference(before, snapshotPath(t, s.lower)); d != "" {
				t.Errorf("the tree is another:\n%s", d)
			}
			_, err = s.store.Apply(r, nil, Options{AllowProtected: true}) // the control
			must(t, err)
			for _, at := range c.out {
				if target, err := os.Readlink(s.lower + "/" + at); err != nil || target != made[at+"@"] {
					t.Errorf("%s: %q, %v", at, target, err)
				}
			}
		})
	}
}

// Programs and libraries of the system can be linked to by whoever can't write them.
func TestLinksToTheSystem(t *testing.T) {
	usr, err := filepath.EvalSymlinks("/usr/bin/env")
	must(t, err)
	dir := t.TempDir()
	must(t, os.Symlink(usr, dir+"/link"))
	must(t, os.WriteFile(dir+"/mine", nil, 0o644))
	for name, want := range map[string]bool{usr: true, "/usr/bin/../bin/env": true, "/bin/env": true, dir + "/link": true,
		"/usr": false, "/usr/bin": false, "/etc/passwd": false, "/usr/bin/no-such": false, dir + "/mine": false, "/usr/bin/../../etc/passwd": false} {
		if got := ofSystem(name); got != (want && os.Geteuid() != 0) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if os.Geteuid() == 0 {
		must(t, unix.Setresuid(-1, 65534, -1)) // all threads; no other test runs beside this one
		defer func() { must(t, unix.Setresuid(-1, 0, -1)) }()
		if !ofSystem(usr) || ofSystem("/usr/bin") {
			t.Error("an ordinary user")
		}
	}
}

// What random runs leave, applied in random parts: no link leads out of the tree, alone or with
// others, in any order.
func TestRandomLinksThatWereAppliedStayInTheTree(t *testing.T) {
	applied, refused := 0, 0
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		s := newScene(t, map[string]string{"a/a/x": "1", "b/c/x": "1", "c/x": "1", "o@": "../outside", "i@": "b/c"})
		names := []string{"a", "b", "c", "o", "i"}
		some := func(n int) string {
			p := names[rnd.IntN(3)]
			for range rnd.IntN(n) {
				p += "/" + names[rnd.IntN(len(names))]
			}
			return p
		}
		up := func(n int) string { return strings.Repeat("../", rnd.IntN(n)) }
		var made []string
		for range 10 {
			at := some(3)
			if _, err := os.Lstat(s.upper + "/" + at); err == nil || os.MkdirAll(filepath.Dir(s.upper+"/"+at), 0o755) != nil {
				continue
			}
			target := []string{up(4) + some(4), some(3) + "/" + up(4) + some(2), s.lower + "/" + some(3), "/proc/self/cwd/" + some(2)}[rnd.IntN(4)]
			must(t, os.Symlink(target, s.upper+"/"+at))
			made = append(made, at)
		}
		r := s.keep(t)
		rnd.Shuffle(len(made), func(i, j int) { made[i], made[j] = made[j], made[i] })
		for _, at := range made {
			_, err := s.store.Apply(r, []string{at}, Options{Force: true})
			var no *RefusedError
			switch {
			case err == nil:
				applied++
			case errors.As(err, &no):
				refused++
			case errors.Is(err, ErrNoRun): // nothing is left of it
			default:
				if _, ok := errors.AsType[*ConflictError](err); !ok && !errors.Is(err, ErrNoMatch) {
					t.Fatalf("seed %d: %s: %v", seed, at, err)
				}
			}
			if bad := leadsOut(t, s.lower, made); bad != "" {
				t.Fatalf("seed %d: after %s: %s", seed, at, bad)
			}
		}
	}
	if applied < 50 || refused < 50 {
		t.Error("too tame: ", fmt.Sprint(applied, " ", refused))
	}
}

// leadsOut names the first link, of those that a run made, with which the kernel leaves the tree.
func leadsOut(t *testing.T, tree string, made []string) string {
	t.Helper()
	root := openDir(t, tree)
	for _, at := range made {
		var st unix.Stat_t
		dir, name := split(at)
		in, err := linux.OpenBeneath(root, dir, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			continue
		}
		is := unix.Fstatat(in, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
		_ = unix.Close(in)
		if !is {
			continue
		}
		real, err := filepath.EvalSymlinks(tree + "/" + at)
		if err == nil && real != tree && !strings.HasPrefix(real, tree+"/") {
			return at + " leads to " + real
		}
	}
	return ""
}
