//go:build linux

package child

import (
	"strings"
	"testing"
)

func TestOnlyOneCommandLineIsAChilds(t *testing.T) {
	for cmdline, want := range map[string]bool{
		"confine __child":          true,
		"/usr/bin/confine __child": true,
		"confine __child more":     false,
		"confine run __child":      false,
		"__child":                  false,
		"":                         false,
		"confine":                  false,
		"confine -- __child":       false,
		"confine __child ":         false,
	} {
		if got := Called(strings.Split(cmdline, " ")); got != want {
			t.Errorf("%q: %v", cmdline, got)
		}
	}
}
