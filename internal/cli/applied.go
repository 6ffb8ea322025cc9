package cli

import "github.com/confine-run/confine/internal/changes"

// unlike says where the tree isn't as the run left it, a line each.
func unlike(done *changes.Result) (lines []string) {
	if n := done.NoSetID; n > 0 {
		line := "set-id bits of " + plural(n, "path") + " were left out"
		if done.Nothing > 0 {
			line += "; for " + plural(done.Nothing, "change") + " that was all there was"
		}
		lines = append(lines, line)
	}
	if n := done.Parted; n > 0 {
		lines = append(lines, plural(n, "file")+" had other names (hard links), which keep the old content, as in the overlay")
	}
	if n := done.Copied; n > 0 {
		lines = append(lines, plural(n, "hard link")+" became "+map[bool]string{true: "a file of its own", false: "files of their own"}[n == 1])
	}
	return lines
}
