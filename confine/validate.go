package confine

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/confine-run/confine/confine/rootfs"
)

// place is what a path is relative to.
type place struct{ dir, home string }

// mistake is what is wrong with one word; who reports it adds where it was said.
func mistake(msg, hint string) error { return &UsageError{Msg: msg, Hint: hint} }

func checkWord(word string, words []string) (string, error) {
	if slices.Contains(words, word) {
		return word, nil
	}
	return "", mistake("is not known"+meant(word, words), "it takes "+oneOf(words))
}

// oneOf is `"a", "b" or "c"`.
func oneOf(words []string) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(w))
	}
	return b.String()
}

// expand gives what a path starts from, and the rest of it. Variables are not
// expanded: a shell does that, and a file that did would say another thing on every host.
func (at place) expand(word string) (from, rest string, err error) {
	switch {
	case word == "":
		return "", "", mistake("is empty", "name a path")
	case strings.ContainsRune(word, 0):
		return "", "", mistake("contains a NUL byte", "")
	case filepath.IsAbs(word):
		return "", word, nil
	case word == "~" || strings.HasPrefix(word, "~/"):
		if !filepath.IsAbs(at.home) {
			return "", "", mistake("needs a home directory", "set HOME, or write the path out")
		}
		return at.home, word[1:], nil
	case word[0] == '~':
		return "", "", mistake("names another user's home directory", `write the path out, or "./`+word+`" for a file of that name`)
	case !filepath.IsAbs(at.dir):
		return "", "", mistake("is relative, and there is no current directory", "name an absolute path")
	}
	return at.dir, word, nil
}

// checkPath makes a path absolute. It looks at nothing: symbolic links are
// resolved once, later, by descriptor.
func checkPath(base place, word string) (string, error) {
	from, rest, err := base.expand(word)
	if err != nil {
		return "", err
	}
	return filepath.Join(from, rest), nil
}

// checkGlob makes a pattern absolute. The word "secrets" alone is the set of that
// name; a file called so is "./secrets".
func checkGlob(base place, word string) (string, error) {
	if word == rootfs.SetSecrets {
		return word, nil
	}
	from, rest, err := base.expand(word)
	if err != nil {
		return "", err
	}
	if nearSecrets(word) && noFile(filepath.Join(from, rest)) {
		return "", mistake("is no file"+meant(word, []string{rootfs.SetSecrets}),
			`"`+rootfs.SetSecrets+`" hides keys and credentials; a path that isn't there yet is "./`+word+`"`)
	}
	if !doublestar.ValidatePattern(filepath.ToSlash(rest)) {
		return "", mistake("is not a valid pattern", "it takes *, ?, [a-z], {a,b} and ** over directories; a backslash takes away their meaning")
	}
	return filepath.Join(escapeGlob(from), rest), nil
}

// nearSecrets: the word may have been meant for the set. Taken for a path that isn't there, it
// would hide nothing, and nobody would hear of it. A name with a dot, a star or a digit is a path.
func nearSecrets(word string) bool {
	const most = 2 // letters amiss
	letters := strings.IndexFunc(word, func(r rune) bool { return (r|0x20 < 'a' || r|0x20 > 'z') && r != '-' && r != '_' }) < 0
	return letters && len(word) <= len(rootfs.SetSecrets)+most && distance(word, rootfs.SetSecrets) <= most
}

// noFile: there is certainly nothing of that name. It is for telling words apart, and decides
// nothing about access.
func noFile(name string) bool {
	_, err := os.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// escapeGlob makes a directory's name stand for itself in a pattern.
func escapeGlob(dir string) string {
	const special = `*?[]{}\`
	if filepath.Separator == '\\' || !strings.ContainsAny(dir, special) {
		return dir // where the separator is a backslash, there is no escaping
	}
	var b strings.Builder
	for _, r := range dir {
		if strings.ContainsRune(special, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// checkProtect takes paths below every writable tree, and those below the home directory.
func checkProtect(_ place, word string) (string, error) {
	clean := path.Clean(word)
	if first, _, _ := strings.Cut(word, "/"); first == "~" && !strings.HasPrefix(clean, "~/") {
		return "", mistake("is not a path below the home directory", `it is "~/PATH", such as "~/bin"`)
	}
	if word == "" || clean == "." || path.IsAbs(clean) || filepath.IsAbs(word) || clean == ".." || strings.HasPrefix(clean, "../") {
		return "", mistake("is not a path below a tree", `it is relative to each writable tree, such as ".git/hooks"`)
	}
	return clean, nil
}

const mountHint = `it takes "SRC:DST", "SRC:DST:ro", "SRC:DST:rw" or "SRC:DST:overlay" with an absolute DST, or "tmpfs:DST:SIZE"`

func checkMount(base place, word string) (string, error) {
	m, err := parseMount(base, word)
	if err != nil {
		return "", err
	}
	return m.String(), nil
}

// parseMount reads from the right, so that only SRC can contain a colon.
func parseMount(base place, word string) (m Mount, err error) {
	if m, ok, err := parseTmpfs(word); ok || err != nil {
		return m, err
	}
	rest, mode := word, "ro"
	modes := []string{"ro", "rw", "overlay"}
	if i := strings.LastIndexByte(word, ':'); i >= 0 && !path.IsAbs(word[i+1:]) && word[i+1:] != "" {
		rest, mode = word[:i], word[i+1:]
		if !slices.Contains(modes, mode) {
			if strings.IndexByte(rest, ':') < 0 {
				return m, mistake("has a destination that is not absolute", mountHint)
			}
			return m, mistake("has the unknown mode "+strconv.Quote(mode)+meant(mode, modes), mountHint)
		}
	}
	i := strings.LastIndexByte(rest, ':')
	if i < 0 {
		return m, mistake("has no destination", mountHint)
	}
	src, dst := rest[:i], rest[i+1:]
	switch {
	case src == "":
		return m, mistake("has no source", mountHint)
	case !path.IsAbs(dst):
		return m, mistake("has a destination that is not absolute", mountHint)
	case path.Clean(dst) == "/":
		return m, mistake("would replace the whole tree", "use --rootfs")
	}
	if src, err = checkPath(base, src); err != nil {
		return m, err
	}
	return Mount{Src: src, Dst: path.Clean(dst), Mode: mode}, nil
}

// parseTmpfs reads "tmpfs:DST:SIZE". Without a size, or with a mode in its place,
// it is a file called tmpfs.
func parseTmpfs(word string) (m Mount, ok bool, err error) {
	rest, ok := strings.CutPrefix(word, "tmpfs:/")
	i := strings.LastIndexByte(rest, ':')
	if !ok || i < 0 || rest[i+1:] == "" || !isDigit(rest[i+1]) || strings.IndexByte(rest[:i], ':') >= 0 {
		return m, false, nil
	}
	m.Dst = path.Clean("/" + rest[:i])
	if m.Size, err = ParseSize(rest[i+1:]); err != nil {
		return m, false, mistake(err.Error(), "it takes "+someSizeForms)
	}
	switch {
	case m.Dst == "/":
		return m, false, mistake("would replace the whole tree", "use --rootfs")
	case m.Size < leastTmpfs:
		return m, false, mistake("is too small to hold a file", "the least is "+FormatSize(leastTmpfs))
	}
	return m, true, nil
}

// leastTmpfs is a page; the kernel rounds up to whole ones, and takes 0 for no limit.
const leastTmpfs = 4096

// maxTmpfs is how many of them a run can have: each has a descriptor on its way out.
const maxTmpfs = 16

// String is the form that --mount takes.
func (m Mount) String() string {
	if m.Size > 0 {
		return "tmpfs:" + m.Dst + ":" + FormatSize(m.Size)
	}
	mode := m.Mode
	if mode == "" {
		mode = "ro"
	}
	return m.Src + ":" + m.Dst + ":" + mode
}

func checkSeccomp(base place, word string) (string, error) {
	words := []string{"off", "default", "strict"}
	if slices.Contains(words, word) {
		return word, nil
	}
	// A mistyped word must not become the name of a file that isn't there.
	if strings.ContainsAny(word, `/\`) || strings.HasSuffix(word, ".toml") || strings.HasSuffix(word, ".json") {
		return checkPath(base, word)
	}
	return "", mistake("is not known"+meant(word, words), "it takes "+oneOf(words)+`, or a file as "./FILE", "FILE.toml" or "FILE.json"`)
}

// checkSink takes "fd:N" or a file to write to.
func checkSink(base place, word string) (string, error) {
	if fd, ok := strings.CutPrefix(word, "fd:"); ok {
		n, err := strconv.ParseUint(fd, 10, 20)
		if err != nil || n == 0 {
			return "", mistake("names no descriptor that can be written to", `it takes a file or "fd:N", N from 1`)
		}
		return "fd:" + strconv.FormatUint(n, 10), nil
	}
	return checkPath(base, word)
}

func checkProfileName(_ place, word string) (string, error) {
	if !isProfileName(word) || word == wordNone {
		return "", mistake("is not a profile's name", `letters, digits, "-" and "_"`)
	}
	return word, nil
}

func isProfileName(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isLetter(c) && !isDigit(c) && c != '_' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
