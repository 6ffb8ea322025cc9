package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

// TestDocumentsNameFilesThatExist: every relative link of the documents leads to a file, its anchor to a
// heading, and what the README changes the directory to, or runs, is there.
func TestDocumentsNameFilesThatExist(t *testing.T) {
	const top = "../.."
	documents, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	must.Do(t, err)
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"} {
		documents = append(documents, filepath.Join(top, name))
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	links := 0
	for _, name := range documents {
		text := read(t, name)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			path, anchor, _ := strings.Cut(m[1], "#")
			to := name
			if path != "" {
				to = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if anchor != "" && !anchors(read(t, to))[anchor] {
				t.Errorf("%s: %s has no heading %q", name, to, anchor)
			}
		}
	}
	if links < 20 {
		t.Errorf("%d links were found", links)
	}
	readme := read(t, filepath.Join(top, "README.md"))
	targets := read(t, filepath.Join(top, "Makefile"))
	steps := regexp.MustCompile(`(?m)^    (?:\$ )?(cd|make|sudo make) ([a-z/]+)`).FindAllStringSubmatch(readme, -1)
	if len(steps) < 6 {
		t.Errorf("%d directories and targets were found in the README", len(steps))
	}
	for _, m := range steps {
		switch {
		case m[1] == "cd":
			if st, err := os.Stat(filepath.Join(top, m[2])); err != nil || !st.IsDir() {
				t.Errorf("cd %s: %v", m[2], err)
			}
		case m[2] == "all": // of the Makefile in examples/python
		case !strings.Contains(targets, "\n"+m[2]+":"):
			t.Errorf("make %s: there is no such target", m[2])
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	must.Do(t, err)
	return string(text)
}

// anchors are what headings can be linked by.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			title = drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			all[strings.ReplaceAll(title, " ", "-")] = true
		}
	}
	return all
}
