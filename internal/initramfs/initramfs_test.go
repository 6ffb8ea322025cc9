package initramfs

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

func TestAnInitramfsIsWhatTheKernelReads(t *testing.T) {
	var b bytes.Buffer
	c := To(&b)
	c.File("a/b/c", 0o755, []byte("12345"))
	c.File("a/b/d", 0o644, nil)
	must.Do(t, c.End())
	var names []string
	for rest := b.Bytes(); len(rest) > 0; {
		header := rest[:110]
		if string(header[:6]) != "070701" {
			t.Fatalf("no header at %d", b.Len()-len(rest))
		}
		size, nameSize := fromHex(t, header[54:62]), fromHex(t, header[94:102])
		name := string(rest[110 : 110+nameSize-1])
		at := (110 + nameSize + 3) &^ 3
		if name == "a/b/c" && string(rest[at:at+size]) != "12345" {
			t.Errorf("%s holds %q", name, rest[at:at+size])
		}
		if mode := fromHex(t, header[14:22]); name == "a" && mode != 0o040755 || name == "a/b/c" && mode != 0o100755 {
			t.Errorf("%s has mode %o", name, mode)
		}
		names = append(names, name)
		rest = rest[(at+size+3)&^3:]
	}
	if want := []string{"a", "a/b", "a/b/c", "a/b/d", "TRAILER!!!"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

func fromHex(t *testing.T, digits []byte) (n int) {
	t.Helper()
	for _, d := range string(digits) {
		n = n<<4 + strings.IndexRune("0123456789ABCDEF", d)
	}
	return n
}

func TestModulesAreLoadedAfterWhatTheyNeed(t *testing.T) {
	needs := map[string][]string{"disk": {"bus", "ring"}, "bus": {"ring", "builtin"}, "ring": nil, "other": {"bus"}}
	order, err := InOrder([]string{"disk", "other", "builtin", "ring"}, func(name string) ([]string, bool, error) {
		deps, ok := needs[name]
		return deps, ok, nil
	})
	if want := []string{"ring", "bus", "disk", "other"}; err != nil || !slices.Equal(order, want) {
		t.Errorf("%q, %v, want %q", order, err, want)
	}
	if _, err := InOrder([]string{"x"}, func(string) ([]string, bool, error) { return nil, false, os.ErrPermission }); !errors.Is(err, os.ErrPermission) {
		t.Errorf("an error got lost: %v", err)
	}
	for file, want := range map[string]string{"/lib/modules/virtio-ring.ko.xz": "virtio_ring", "overlay.ko": "overlay"} {
		if got := ModuleName(file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
}
