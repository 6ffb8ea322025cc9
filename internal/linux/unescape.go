package linux

import "strings"

// Unescape turns \040 and the like in a name of /proc/self/mountinfo back; the kernel
// escapes blanks and "\".
func Unescape(name string) string {
	if strings.IndexByte(name, '\\') < 0 {
		return name
	}
	out := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		if rest := name[i:]; len(rest) > 3 && rest[0] == '\\' && rest[1] <= '3' && octal(rest[1]) && octal(rest[2]) && octal(rest[3]) {
			out = append(out, (rest[1]-'0')<<6|(rest[2]-'0')<<3|(rest[3]-'0'))
			i += 3
			continue
		}
		out = append(out, name[i])
	}
	return string(out)
}

func octal(c byte) bool { return '0' <= c && c <= '7' }
