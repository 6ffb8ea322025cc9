package mounts

import (
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Parse gives the mounts in the text of a mountinfo file, later ones above earlier ones. A line that
// is none makes an error of the whole.
func Parse(text string) ([]*mountinfo.Info, error) {
	return mountinfo.GetMountsFromReader(strings.NewReader(text), nil)
}
