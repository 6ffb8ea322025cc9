package windows

import (
	"errors"
	"slices"
	"strings"
)

// What a path can be refused for. All are paths that mean something else than a file in a tree on a disk of this machine.
var (
	errRelative = errors.New("is not absolute")
	errShare    = errors.New("is on another machine, where no ACE can be taken back for certain")
	errDevice   = errors.New("names a device")
	errStream   = errors.New("names a stream of a file")
	errDrive    = errors.New("is a whole drive")
	errTrailing = errors.New("ends in a dot or a space, which Windows drops")
	errControl  = errors.New("has a character that no name can have")
	errLong     = errors.New("is longer than Windows takes")
)

// reserved are names of devices in every directory, with any extension.
var reserved = map[string]bool{"CON": true, "PRN": true, "AUX": true, "NUL": true, "CONIN$": true, "CONOUT$": true}

func isReserved(component string) bool {
	name, _, _ := strings.Cut(component, ".")
	name = strings.ToUpper(strings.TrimRight(name, " "))
	if reserved[name] {
		return true
	}
	port, ok := strings.CutPrefix(name, "COM")
	if !ok {
		port, ok = strings.CutPrefix(name, "LPT")
	}
	return ok && (len(port) == 1 && port[0] >= '0' && port[0] <= '9' || port == "¹" || port == "²" || port == "³")
}

// maxPath is UNICODE_STRING's, in UTF-16 units, less the prefix that long names are opened with.
const maxPath = 32767 - 8

// checkPath says whether a path can be granted: one of a drive's, and below its root.
func checkPath(p string) error {
	slashed := strings.ReplaceAll(p, "/", `\`)
	switch {
	case strings.HasPrefix(slashed, `\\.\`), strings.HasPrefix(slashed, `\??\`):
		return errDevice
	case strings.HasPrefix(slashed, `\\?\`):
		return errDevice // a name that nothing normalises
	case strings.HasPrefix(slashed, `\\`):
		return errShare
	case len(slashed) < 3 || slashed[1] != ':' || slashed[2] != '\\' || !isLetter(slashed[0]):
		return errRelative
	case len([]rune(p)) > maxPath:
		return errLong
	}
	rest := strings.Trim(slashed[3:], `\`)
	if rest == "" {
		return errDrive
	}
	for _, c := range strings.Split(rest, `\`) {
		switch {
		case c == "" || c == "." || c == "..":
			return errRelative
		case strings.Contains(c, ":"):
			return errStream
		case strings.ContainsAny(c, `<>"|?*`) || strings.ContainsFunc(c, func(r rune) bool { return r < ' ' }):
			return errControl
		case c[len(c)-1] == '.' || c[len(c)-1] == ' ':
			return errTrailing
		case isReserved(c):
			return errDevice
		}
	}
	return nil
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// under says whether a path is another or below it. Case doesn't count.
func under(p, dir string) bool {
	p, dir = fold(p), fold(dir)
	return p == dir || strings.HasPrefix(p, dir+`\`)
}

func fold(p string) string {
	return strings.ToUpper(strings.TrimRight(strings.ReplaceAll(p, "/", `\`), `\`))
}

// batch says whether a program is a script of cmd.exe.
func batch(path string) bool {
	p := strings.ToLower(strings.TrimRight(path, ". "))
	return strings.HasSuffix(p, ".bat") || strings.HasSuffix(p, ".cmd")
}

// batchSafe says whether words reach a script as they are: cmd.exe reads the whole line once more, with a syntax in which quotes don't
// keep these characters.
func batchSafe(args []string) bool {
	return !slices.ContainsFunc(args, func(a string) bool { return strings.ContainsAny(a, "\"%!^&|<>()\r\n\x00") })
}
