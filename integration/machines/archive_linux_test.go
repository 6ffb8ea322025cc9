package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
)

func TestTheNewestKernelIsTheOneWithTheHighestNumbers(t *testing.T) {
	names := []string{"linux-image-6.1.0-9-cloud-amd64", "linux-image-6.1.0-56-cloud-amd64", "linux-image-6.1.0-56-amd64", "linux-image-6.1.0-56-cloud-amd64-dbg"}
	got, err := newest(names, `^linux-image-6\.1\.0-\d+-cloud-amd64$`)
	if err != nil || got != names[1] {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := newest(names, `^linux-image-6\.2\.`); err == nil {
		t.Errorf("%q is of another series", got)
	}
}

func TestTheSitesAreThoseOfThisHostsApt(t *testing.T) {
	sources := "nodistro https://other.example/x\nbookworm http://a.example/debian\nbookworm-updates http://b.example/debian\n" +
		"bookworm-security http://a.example/debian-security\n"
	sites, err := sitesOf(sources)
	must.Do(t, err)
	a := &archive{sites: sites}
	for s, want := range map[suite]string{
		"trixie-backports":  " http://a.example/debian trixie-backports main",
		"bookworm-security": " http://a.example/debian-security bookworm-security main",
	} {
		if got := a.source(s); !strings.HasSuffix(got, want) {
			t.Errorf("%q, not %q", got, want)
		}
	}
	if sites, err := sitesOf("noble http://other.example/ubuntu\nnoble-security http://other.example/ubuntu\n"); err == nil {
		t.Errorf("%v are not Debian's", sites)
	}
}

func TestCacheMakesAFileOnce(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	c, err := openCache()
	must.Do(t, err)
	made := 0
	get := func(fault error) (string, error) {
		return c.get("kind", "name", func(path string) error {
			made++
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				return err
			}
			return fault
		})
	}
	if _, err := get(os.ErrInvalid); err == nil {
		t.Fatal("a fault got lost")
	}
	path, err := get(nil)
	if err != nil || made != 2 {
		t.Fatalf("%v, made %d times: what was not finished must not be kept", err, made)
	}
	if _, err := get(nil); err != nil || made != 2 {
		t.Errorf("%v, made %d times", err, made)
	}
	old := filepath.Join(filepath.Dir(path), "old")
	must.Do(t, os.WriteFile(old, nil, 0o644))
	long := time.Now().Add(-2 * unused)
	must.Do(t, os.Chtimes(old, long, long))
	must.Do(t, c.close())
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("what nobody used for long is still there: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestDigestDependsOnContent(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	sum := func(content string) string {
		must.Do(t, os.WriteFile(name, []byte(content), 0o644))
		d, err := digest("x", file(name))
		must.Do(t, err)
		return d
	}
	if a, b := sum("a"), sum("b"); a == b || a != sum("a") {
		t.Error("a file's content makes no difference, or nothing but")
	}
}

func TestTheContainerHasDockersProfile(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the profile depends on the architecture, and the machines are amd64")
	}
	to := filepath.Join(t.TempDir(), "config.json")
	must.Do(t, containerConfig("config.json", to))
	text, err := os.ReadFile(to)
	if err != nil || !bytes.Contains(text, []byte(`"defaultAction":"SCMP_ACT_ERRNO"`)) {
		t.Errorf("%v, %s", err, text)
	}
}
