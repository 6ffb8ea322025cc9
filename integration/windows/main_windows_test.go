package windows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/status"
)

// word makes the test a program that does what is said.
const word = "__does"

var confine string

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == word {
		os.Exit(do(os.Args[2], os.Args[3:]))
	}
	os.Exit(func() int {
		if confine = os.Getenv("CONFINE_BIN"); confine != "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "confine-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		confine = filepath.Join(dir, "confine.exe")
		if out, err := exec.Command("go", "build", "-o", confine, "../..").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// do is what the program does. It gives its exit code.
func do(what string, words []string) int {
	fail := func(err error) int {
		if err == nil {
			return 0
		}
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	switch what {
	case "echo":
		fmt.Println(strings.Join(words, " "))
	case "words":
		return fail(json.NewEncoder(os.Stdout).Encode(words))
	case "cat":
		_, err := io.Copy(os.Stdout, os.Stdin)
		return fail(err)
	case "exit":
		n, _ := strconv.Atoi(words[0])
		return n
	case "sleep":
		time.Sleep(time.Minute)
	case "env":
		fmt.Println(os.Getenv(words[0]))
	case "flood":
		for range 10_000 {
			fmt.Println("0123456789")
		}
	case "write":
		return fail(os.WriteFile(words[0], []byte("written"), 0o600))
	case "tree": // a grandchild, which tells its number in a file
		c := exec.Command(os.Args[0], word, "tell", words[0])
		return fail(c.Run())
	case "tell":
		err := os.WriteFile(words[0]+".new", []byte(strconv.Itoa(os.Getpid())), 0o600)
		if err = errors.Join(err, os.Rename(words[0]+".new", words[0])); err != nil {
			return fail(err)
		}
		time.Sleep(time.Minute)
	case "handle":
		n, err := strconv.ParseUint(words[0], 10, 64)
		if err == nil {
			err = windows.SetEvent(windows.Handle(n))
		}
		return fail(err)
	case "allocate":
		var all [][]byte
		for range 1 << 10 {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			all = append(all, b)
		}
		fmt.Println(len(all))
	case "bomb":
		for i := range 100 {
			if err := exec.Command(os.Args[0], word, "sleep").Start(); err != nil {
				fmt.Println(i)
				return 0
			}
		}
	case "spin":
		for n := uint64(0); ; n++ {
			_ = n
		}
	case "remove":
		return fail(os.RemoveAll(words[0]))
	default:
		fmt.Fprintln(os.Stderr, "no such word")
		return 2
	}
	return 0
}

func does(words ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{self, word}, words...)
}

// everywhere lets a run go on with what there is: under Wine that is little.
const everywhere = "--allow-partial=all"

// command is a call of confine.
func command(t *testing.T, words ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), confine, words...)
	c.Dir = t.TempDir()
	return c
}

// run calls confine. What it can't even be called for is an error.
func run(t *testing.T, c *exec.Cmd) (out, errs string, rc int) {
	t.Helper()
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return o.String(), e.String(), c.ProcessState.ExitCode()
}

// report calls confine with --json.
func report(t *testing.T, c *exec.Cmd) *status.Report {
	t.Helper()
	c.Args = append([]string{c.Args[0], "--json"}, c.Args[1:]...)
	out, errs, _ := run(t, c)
	var r status.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %q, %q", err, out, errs)
	}
	return &r
}

func underWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}

// onWindows skips what Wine fakes.
func onWindows(t *testing.T) {
	t.Helper()
	if !underWine() {
		return
	}
	if must := host.MustRun("windows"); must != nil {
		t.Fatal(must)
	}
	t.Skip("Wine fakes it")
}

// await waits for a file, and gives what it has.
func await(t *testing.T, name string) string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(name); err == nil {
			return string(text)
		}
	}
	t.Fatal("nothing came to be at", name)
	return ""
}

// process opens a process by its number in words.
func process(t *testing.T, number string) windows.Handle {
	t.Helper()
	pid, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	t.Cleanup(func() { _ = windows.CloseHandle(h) })
	if e, err := windows.WaitForSingleObject(h, 0); err != nil || e != uint32(windows.WAIT_TIMEOUT) {
		t.Fatalf("process %d has ended: %d, %v", pid, e, err)
	}
	return h
}

// gone waits for the end of a process.
func gone(t *testing.T, h windows.Handle) {
	t.Helper()
	if e, err := windows.WaitForSingleObject(h, 10_000); err != nil || e != windows.WAIT_OBJECT_0 {
		t.Errorf("it goes on: %d, %v", e, err)
	}
}
