package integration

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/linux"
)

// The caller may name a binary to be tested; it is built otherwise. And the run
// as an ordinary user gets what the run as root has built.
const (
	binaryVar   = "CONFINE_BIN"
	programsVar = "CONFINE_TEST_PROGRAMS"
)

// scene is where everything of this package lives: programs, homes, and the
// directories of the scripts. The ordinary user can look into it.
var scene struct {
	dir      string
	programs string // confine, attempt, netpeer
}

func TestMain(m *testing.M) {
	host.ProbeMain() // a throw-away process of a condition never gets any further
	defaultActions()
	// Most of them wait for something, most of the time. A flag on the command line is parsed later, and counts.
	_ = flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	code, err := inScene(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		code = 1
	}
	os.Exit(code)
}

// defaultActions: programs start with signals as a shell in the foreground starts them, also
// under nohup, and in the background of a script. What has a handler here has its default
// action in a program that is executed; this process itself still doesn't end.
func defaultActions() {
	for _, n := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU} {
		if linux.Ignored(n) {
			signal.Notify(make(chan os.Signal, 1), n)
		}
	}
}

func inScene(run func() int) (code int, err error) {
	if scene.dir, err = os.MkdirTemp("", "confine-test-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, removeScene()) }()
	if err := os.Chmod(scene.dir, 0o755); err != nil {
		return 1, err
	}
	if scene.programs = os.Getenv(programsVar); scene.programs == "" {
		if err := makePrograms(); err != nil {
			return 1, err
		}
	}
	code = run()
	// The next run sweeps what those have left that were killed.
	_ = exec.Command(filepath.Join(scene.programs, "confine"), "--", "true").Run()
	if left := deadGroups(); len(left) > 0 {
		return 1, fmt.Errorf("left behind: %v", left)
	}
	return code, nil
}

func makePrograms() error {
	scene.programs = filepath.Join(scene.dir, "programs")
	if err := os.Mkdir(scene.programs, 0o755); err != nil {
		return err
	}
	packages := []string{"../examples/agent", "../cmd/confine-server", "../cmd/confine-vm", "../cmd/confine-wasm", "../cmd/confine-worker", "./attempt", "./netpeer"}
	for _, pkg := range packages {
		if err := build(filepath.Join(scene.programs, filepath.Base(pkg)), pkg); err != nil {
			return err
		}
	}
	confine := filepath.Join(scene.programs, "confine")
	if given := os.Getenv(binaryVar); given != "" {
		return copyProgram(given, confine)
	}
	return build(confine, "..")
}

func build(out, pkg string) error {
	flags := "-s -w"
	if pkg == ".." {
		flags += " -E main.entry" // as "make build" makes it
	}
	args := []string{"build", "-trimpath", "-ldflags", flags, "-o", out}
	if os.Getenv("GOCOVERDIR") != "" && pkg == ".." {
		args = append(args, "-cover", "-coverpkg=github.com/confine-run/confine/...")
	}
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return os.Chmod(out, 0o755)
}

// copyProgram lets nobody fork meanwhile: a process that has the copy open for
// writing, for as long as it takes it to execve, keeps it from being executed.
func copyProgram(from, to string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o755), out.Close())
}

// removeScene makes directories writable first: the module cache of a script's
// Go is not.
func removeScene() error {
	_ = filepath.WalkDir(scene.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o755)
		}
		return nil
	})
	return os.RemoveAll(scene.dir)
}
