package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWhatRunsOnceRuns: .ci/once names tests that there are and leaves each of them to one of two runs, which has it; and none asks who runs it.
func TestWhatRunsOnceRuns(t *testing.T) {
	const top = "../.."
	who := regexp.MustCompile(`Gete?uid\(\)|\broot\]|\bpyenv\]|\[!?(python|cgroup[12]):`) // cgroups and interpreters of root's, too
	declared := declarations(t, top)
	whole, owner := map[string]bool{}, map[string]string{}
	for line := range strings.Lines(read(t, top+"/.ci/once")) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(f) > 3 || len(f) < 2 || f[0] != "root" && f[0] != "user" {
			t.Errorf("%q is not WHO PACKAGE [TEST]", line)
			continue
		}
		name, dir := strings.Join(f[1:], " "), filepath.Join(top, f[1])
		if owner[name] != "" {
			t.Errorf("%s is left to two", name)
		}
		owner[name] = f[0]
		files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
		switch {
		case len(f) == 2:
			whole[f[1]] = true
			if len(files) == 0 {
				t.Errorf("%s has no tests", name)
			}
			for _, file := range files {
				if asks := who.FindString(read(t, file)); asks != "" {
					t.Errorf("%s asks who runs it: %s", file, asks)
				}
			}
		case f[1] == "python/tests":
			if _, err := os.Stat(filepath.Join(dir, f[2])); err != nil {
				t.Error(err)
			}
		default:
			test, script, scripts := strings.Cut(f[2], "/")
			if in := declared[test]; len(in) != 1 || filepath.Dir(in[0]) != filepath.Clean(dir) {
				t.Errorf("%s: %s is declared in %q: a pattern for one is one for all", name, test, in)
			} else if _, body, _ := strings.Cut(read(t, in[0]), "\nfunc "+test+"("); !scripts {
				if body, _, _ = strings.Cut(body, "\n}\n"); who.MatchString(body) {
					t.Errorf("%s asks who runs it", name)
				}
			}
			if scripts {
				if asks := who.FindString(read(t, filepath.Join(dir, "testdata", script+".txtar"))); asks != "" {
					t.Errorf("%s asks who runs it: %s", name, asks)
				}
			}
		}
	}
	for name := range owner {
		dir, test, _ := strings.Cut(name, " ")
		if parent, _, scripts := strings.Cut(test, "/"); test != "" && whole[dir] || scripts && owner[dir+" "+parent] != "" {
			t.Errorf("%s is part of what is left to somebody as a whole", name)
		}
	}
}

// declarations are the files that declare a test, by its name.
func declarations(t *testing.T, top string) map[string][]string {
	in := map[string][]string{}
	err := filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(read(t, path), -1) {
				in[m[1]] = append(in[m[1]], filepath.Clean(path))
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return in
}
