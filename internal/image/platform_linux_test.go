package image

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"
)

// another is a platform that this isn't.
const another = "s390x"

// newPlatform is a layout whose index, or whose configuration, names platforms.
func newPlatform(t *testing.T, configured string, indexed ...string) string {
	t.Helper()
	dir := t.TempDir()
	layer := store(t, dir, archive(t, "f=1"))
	c := store(t, dir, document(t, object{"architecture": configured, "os": "linux", "config": object{}}))
	var all []object
	for _, arch := range indexed {
		m := store(t, dir, document(t, object{"config": c, "layers": []object{layer}, "annotations": object{"for": arch}}))
		if os, cpu, ok := strings.Cut(arch, "/"); ok {
			m["platform"] = object{"os": os, "architecture": cpu}
		}
		all = append(all, m)
	}
	index(t, dir, all...)
	return dir
}

func TestImagesOfOtherPlatformsAreRefused(t *testing.T) {
	here := "linux/" + runtime.GOARCH
	for name, c := range map[string]struct {
		dir  string
		want []string // nil: taken
	}{
		"this one":                     {newPlatform(t, runtime.GOARCH, "any"), nil},
		"none named":                   {newPlatform(t, "", "any"), nil},
		"the right of several":         {newPlatform(t, runtime.GOARCH, "linux/"+another, here, "unknown/unknown"), nil},
		"by its configuration":         {newPlatform(t, another, "any"), []string{"linux/" + another, here}},
		"the index says another":       {newPlatform(t, another, here), []string{"linux/" + another, here}},
		"none of several":              {newPlatform(t, another, "linux/"+another, "windows/"+runtime.GOARCH), []string{"linux/" + another, "windows/", here}},
		"none but what isn't an image": {newPlatform(t, another, "linux/"+another, "unknown/unknown"), []string{"linux/" + another, here}},
	} {
		_, err := unpackNew(t, c.dir)
		if c.want == nil {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, ErrPlatform) || !strings.Contains(Remedy(err), "--platform "+here) || strings.Contains(err.Error(), "unknown") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v lacks %s", name, err, w)
			}
		}
	}
}

func TestWhatIsDamagedIsToldFromWhatIsNoImage(t *testing.T) {
	whole := archive(t, member("f="+strings.Repeat("1", 5000)), "g=2")
	changed := bytes.Clone(whole)
	changed[512*11+10] ^= 0xff // in the second header, whatever it is padded by
	for name, c := range map[string]struct {
		content []byte
		is      error
	}{
		"whole":   {whole, nil},
		"cut":     {whole[:3000], ErrDamaged},
		"text":    {bytes.Repeat([]byte("no tar\n"), 1000), ErrNotImage},
		"short":   {[]byte("text"), ErrNotImage},
		"empty":   {nil, ErrNotImage},
		"changed": {changed, ErrDamaged},
	} {
		_, err := unpackNew(t, newFile(t, c.content))
		if !errors.Is(err, c.is) {
			t.Errorf("%s: %v", name, err)
		}
		if damaged := errors.Is(c.is, ErrDamaged); err != nil && damaged != strings.Contains(Remedy(err), "again") {
			t.Errorf("%s: %s", name, Remedy(err))
		}
	}
}
