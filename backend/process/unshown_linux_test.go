package process

import (
	"slices"
	"testing"
)

func TestNamesInWhatATargetSays(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil,
		"cat: /etc/x: No such file or directory\n": {"/etc/x"},
		"open '/opt/a b/c'":                        {"/opt/a"},
		"“~/x.toml”: not found.":                   {"/home/u/x.toml"},
		"I/O error : file:///etc/xml/catalog.":     {"/etc/xml/catalog"},
		"/etc/../etc//x/. /var/y...":               {"/etc/x", "/var/y"},
		"\x1b[31m/etc/x\x1b[0m:":                   nil, // its colour ends in a letter
		"/etc/a\u202eb /etc/c\x00d \xff/opt/e":     {"/etc/a", "/etc/c", "/opt/e"},
		"a/etc/b ~u/x ~ / ./c":                     {"/"},
		"sh: 0: cannot open ../x/y.sh: No":         {"/w/x/y.sh"},
		"'./../l/m.js' a/../../b ../.. ..":         {"/w/l/m.js", "/w/b", "/"},
		"--file=/opt/x,/opt/y;rm":                  {"/opt/x", "/opt/y"},
		"$(/opt/x) `/opt/y` /opt/z&":               {"/opt/x", "/opt/y", "/opt/z"},
	} {
		if got := namesIn(text, "/home/u", "/w/p"); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
