package hostfs

import "strings"

// RebaseUnder is rebase, or empty where p isn't below from.
func RebaseUnder(p, from, to string) string {
	if !Under(p, from) {
		return ""
	}
	return Rebase(p, from, to)
}

// Under says whether p is dir or lies below it. Both are clean and absolute.
func Under(p, dir string) bool {
	return strings.HasPrefix(p, dir) && (len(p) == len(dir) || dir == "/" || p[len(dir)] == '/')
}

// Below is under, but not dir itself.
func Below(p, dir string) bool { return p != dir && Under(p, dir) }

// Rebase moves p from below one directory to below another.
func Rebase(p, from, to string) string {
	if from == "/" {
		from = ""
	}
	rest := p[len(from):]
	switch {
	case rest == "" || rest == "/":
		return to
	case to == "/":
		return rest
	}
	return to + rest
}

// ComparePaths sorts a directory before what is in it, and that before its siblings.
func ComparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x == '/' {
			return -1
		}
		if y == '/' || x > y {
			return 1
		}
		return -1
	}
	return len(a) - len(b)
}
