package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/confine-run/confine/internal/host"
)

// commands are what scripts have beside testscript's own:
//
//	rc N COMMAND…            run it; it has to exit with just N
//	rc N signalled SIGNAL,… WORD COMMAND…
//	                         the same, and send it signals once it has written WORD
//	world N COMMAND…         rc N, where every address answers: see netpeer; file "seen" has
//	                         a line for each thing that a server there saw
//	refused COMMAND…         run "attempt COMMAND…" outside, where it has to succeed, and
//	                         then inside ($CONFINE has the options), where it must not;
//	                         with -anyway first, hosts may refuse it themselves; with -world,
//	                         both are in a world; of "each A , B" all succeed outside, and none inside
//	jq FILE PATH VALUE       what a.b[0] is in a file of JSON; ~VALUE is a pattern
//	agree FILE FILE          two ledgers, of explain or of runs, say the same
//	clean [-wait]            nothing of the runs so far is left, as at the end of each script
//	listen KIND NAME VAR     a listener of the host's; VAR gets its address
//	untouched FILE TEXT      the file still holds just this line
//	put FILE KIND            make what txtar can't: fifo, socket, or big:N
//	foreign FROM TO          a copy of an executable, made for another machine
//	gocache DIR              a build cache of Go's that holds the runtime, and nothing of the caller's
//	docker-profile FILE      the profile that Docker gives a container
var commands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"rc":        cmdRC,
	"world":     cmdWorld,
	"refused":   cmdRefused,
	"jq":        cmdJQ,
	"agree":     cmdAgree,
	"clean":     cmdClean,
	"listen":    cmdListen,
	"untouched": cmdUntouched,
	"put":       cmdPut,
	"foreign":   cmdForeign,
	"gocache":   cmdGocache,
}

func usage(ts *testscript.TestScript, neg bool, args []string, least int, text string) {
	if neg || len(args) < least {
		ts.Fatalf("usage: %s", text)
	}
}

func cmdRC(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, "rc N COMMAND…")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	argv := args[1:]
	if argv[0] == "signalled" {
		argv = append([]string{"attempt"}, argv...)
	}
	if got := run(ts, argv); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func cmdWorld(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, "world N COMMAND…")
	cmdRC(ts, neg, append([]string{args[0], "netpeer", "world"}, args[1:]...))
}

// run gives the exit code as a shell would.
func run(ts *testscript.TestScript, argv []string) int {
	err := ts.Exec(argv[0], argv[1:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s: %v", argv[0], err)
	}
	return 0
}

// broken is what else went wrong with a command than how it exited.
func broken(err error) error {
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}

// exitRefused is attempt's own word for "the kernel said no".
const exitRefused = 3

func cmdRefused(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 1, "refused [-anyway|-world] COMMAND…")
	var around []string
	anyway, inWorld := args[0] == "-anyway", args[0] == "-world"
	if anyway || inWorld {
		args = args[1:]
	}
	if inWorld {
		around = []string{"netpeer", "world"}
	}
	attempt := append([]string{ts.Getenv("ATTEMPT")}, args...)
	if code := run(ts, append(around, attempt...)); code != 0 && !(anyway && code == exitRefused) {
		ts.Fatalf("outside, where it should succeed, exit code %d", code)
	}
	if attempt[1] == "each" {
		attempt[1] = "any"
	}
	inside := append(append(around, "confine"), strings.Fields(ts.Getenv("CONFINE"))...)
	if code := run(ts, append(append(inside, "--"), attempt...)); code != exitRefused {
		ts.Fatalf("inside: exit code %d, want %d", code, exitRefused)
	}
}

func cmdUntouched(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, "untouched FILE TEXT")
	if got := ts.ReadFile(args[0]); got != args[1]+"\n" {
		ts.Fatalf("%s holds %q", args[0], got)
	}
}

// hasModule asks a Python: the one that PATH leads to, or the distribution's.
func hasModule(python, name, cond string) (bool, error) {
	if err := exec.Command(python, "-c", "import "+name).Run(); err != nil {
		return false, host.MustRun(cond)
	}
	return true, nil
}

// warmCache is what scripts get a copy of, as Go fills it with the few variables that a target has.
var warmCache = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scene.dir, "gocache")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(dir+"/main.go", []byte("package main\n\nfunc main() { println() }\n"), 0o644); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", os.DevNull, dir+"/main.go")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GOCACHE=" + dir + "/cache", "GOTOOLCHAIN=local", "GOTELEMETRY=off"}
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, text)
	}
	return dir + "/cache", nil
})

func cmdGocache(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 1, "gocache DIR")
	dir, err := warmCache()
	ts.Check(err)
	ts.Check(os.CopyFS(ts.MkAbs(args[0]), os.DirFS(dir)))
}

func cmdForeign(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, "foreign FROM TO")
	b, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	const machine, sparc64 = 18, 43 // e_machine, little-endian
	if len(b) < 20 || string(b[:4]) != "\x7fELF" {
		ts.Fatalf("%s is no ELF file", args[0])
	}
	b[machine], b[machine+1] = sparc64, 0
	syscall.ForkLock.RLock() // as in copyProgram
	defer syscall.ForkLock.RUnlock()
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o755))
}

func quoted(v any) string { return fmt.Sprintf("%q", v) }
