package vm

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// inTree is what this program does in a tree that has nothing but it: it serves the caller of a port once, and says what it sees.
func inTree(port string) {
	l, err := net.Listen("tcp4", "127.0.0.1:"+port)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	c, err := l.Accept()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	text, _ := os.ReadFile("/etc/which")
	_, host := os.Stat("/usr/bin")
	fmt.Fprint(c, "which ", string(text), ", host's ", errors.Is(host, os.ErrNotExist), ", mkdir ", os.Mkdir("/made", 0o700), ", link ", os.Symlink("x", "/etc/link"))
	_ = os.WriteFile("/etc/which", []byte("changed"), 0o600)
	own, _ := os.ReadDir("/run/confine-vm")
	fmt.Fprint(c, ", keeper's ", len(own))
	_ = c.Close()
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must.Do(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// A tree of the caller's is the root, a port of the caller's leads to one inside, and a file says which calls there are: in one machine.
func TestAMachineHasARootPortsAndAFilterOfTheCallers(t *testing.T) {
	t.Parallel()
	root, other := t.TempDir(), t.TempDir()
	own, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Join(root, "etc"), 0o755), os.WriteFile(filepath.Join(root, "etc/which"), []byte("the tree"), 0o644),
			os.WriteFile(filepath.Join(root, treeProgram), own, 0o755),
			os.WriteFile(filepath.Join(other, "calls.toml"), []byte("extends = \"default\"\n[[rules]]\nrule = \"no-mkdir\"\nnames = [\"mkdir\", \"mkdirat\"]\naction = \"deny\"\n"), 0o644))
	}
	must.Do(t, err)
	spec := specHere(t, "/")
	port := free(t)
	p := spec.Policy
	p.Filesystem.Rootfs, p.Filesystem.Workdir = root, "none"
	p.Network.Publish, p.Seccomp = []string{port + ":80"}, filepath.Join(other, "calls.toml")
	spec.Argv = []string{"/" + treeProgram}
	box := opened(t, spec)
	ran, err := box.Start(t.Context(), &backend.Exec{Argv: []string{"/" + treeProgram, "80"}, Stdout: t.Output(), Stderr: t.Output()})
	must.Do(t, err)
	said := ""
	for deadline := time.Now().Add(time.Minute); said == "" && time.Now().Before(deadline); {
		c, err := net.Dial("tcp4", "127.0.0.1:"+port)
		must.Do(t, err)
		text, _ := io.ReadAll(c)
		said = string(text)
		c.Close()
	}
	if want := "which the tree, host's true, mkdir mkdir /made: " + unix.EPERM.Error() + ", link <nil>, keeper's 0"; said != want {
		t.Errorf("it says %q, and not %q", said, want)
	}
	r := ran.Wait()
	if r.Status != status.OK {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	if now, err := os.ReadFile(filepath.Join(root, "etc/which")); err != nil || string(now) != "the tree" {
		t.Errorf("what was written to the tree is in it: %q, %v", now, err)
	}
	for c, how := range map[status.Capability]string{status.Rootfs: "overlayfs", status.Publish: "gateway"} {
		if e := r.Enforced[c]; !e.Effective || e.Mechanism != how {
			t.Errorf("%s: %+v", c, e)
		}
	}
	if e := r.Enforced[status.Syscalls]; e.PolicyKind != "file" || !strings.Contains(e.Details, "QEMU itself") || !e.Applied {
		t.Errorf("%+v", e)
	}
}

func TestAFileThatIsNoFilterIsRefusedBeforeAnythingBoots(t *testing.T) {
	spec := specHere(t, t.TempDir())
	spec.Policy.Seccomp = filepath.Join(t.TempDir(), "calls.toml")
	must.Do(t, os.WriteFile(spec.Policy.Seccomp, []byte("calls = 5"), 0o644))
	if _, err := (Backend{}).Plan(t.Context(), spec); !errors.As(err, new(*config.UsageError)) {
		t.Errorf("%v", err)
	}
	spec.Policy.Seccomp, spec.Shape.Sealed = "default", true
	if _, err := (Backend{}).Plan(t.Context(), spec); !errors.As(err, new(*config.UsageError)) {
		t.Errorf("a container: %v", err)
	}
}

func TestPortsLeadByOnesThatTheCommandHasNot(t *testing.T) {
	p := config.Default()
	p.Network.Publish = []string{"8080:80", "8081:1023", "9090:80", "7:1021"}
	if got, want := leads(&p), []lead{{80, 1022}, {1023, 1020}, {1021, 1019}}; !slices.Equal(got, want) || !hasNetwork(&p) {
		t.Errorf("%v, and not %v", got, want)
	}
	if i := innerOf(&p, 0, 0, ""); !reflect.DeepEqual(i.Network, config.Network{All: true}) {
		t.Errorf("%+v", i.Network)
	}
	p.Network.All = true
	if got := leads(&p); got != nil {
		t.Errorf("in the caller's own network: %v", got)
	}
}
