package linux

import "testing"

func TestNamesAreUnescaped(t *testing.T) {
	for escaped, name := range map[string]string{
		"/plain": "/plain", `/a\040b`: "/a b", `/\134040`: `/\040`, `\011\012\043`: "\t\n#", `/\04`: `/\04`, `/\`: `/\`,
		`/\777`: `/\777`, `/\08x`: `/\08x`, `/\303\244`: "/ä",
	} {
		if got := Unescape(escaped); got != name {
			t.Errorf("%q: %q, want %q", escaped, got, name)
		}
	}
}
