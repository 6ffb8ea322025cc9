// Package built builds the program and calls it, for tests of systems that have no scripts.
package built

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/status"
)

const (
	// Word makes the test a program that does what is said.
	Word = "__does"
	// Everywhere lets a run go on with what there is.
	Everywhere = "--allow-partial=all"
)

// Confine is the program.
var Confine string

// Main builds it, unless CONFINE_BIN names one, and runs the tests. Where this process is to be a program it does what is said; more are
// further words.
func Main(m *testing.M, more map[string]func(words []string) error) {
	if len(os.Args) > 2 && os.Args[1] == Word {
		do := more[os.Args[2]]
		if do == nil {
			do = func(words []string) error { return program(os.Args[2], words) }
		}
		if err := do(os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(func() int {
		if Confine = os.Getenv("CONFINE_BIN"); Confine != "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "confine-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		Confine = filepath.Join(dir, "confine")
		if runtime.GOOS == "windows" {
			Confine += ".exe"
		}
		if out, err := exec.Command("go", "build", "-o", Confine, "../..").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

func program(what string, words []string) error {
	switch what {
	case "echo":
		fmt.Println(strings.Join(words, " "))
	case "cat":
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	case "env":
		fmt.Println(os.Getenv(words[0]))
	case "exit":
		n, err := strconv.Atoi(words[0])
		if err == nil {
			os.Exit(n)
		}
		return err
	case "sleep":
		time.Sleep(time.Minute)
	case "spin":
		for n := uint64(0); ; n++ {
			_ = n
		}
	case "allocate": // so many MiB, all of it touched; and stays, where a second word says so
		n, err := strconv.Atoi(words[0])
		if err != nil {
			return err
		}
		all := make([][]byte, n)
		for i := range all {
			all[i] = make([]byte, 1<<20)
			for k := 0; k < len(all[i]); k += 4096 {
				all[i][k] = 1
			}
		}
		if len(words) > 1 {
			time.Sleep(time.Minute)
		}
		fmt.Println(len(all))
	default:
		return errors.New("no such word")
	}
	return nil
}

// Tell writes a number into a file that [Await] waits for.
func Tell(name string, n int) error {
	err := os.WriteFile(name+".new", []byte(strconv.Itoa(n)), 0o600)
	return errors.Join(err, os.Rename(name+".new", name))
}

// Await waits for a file with a number, and gives that.
func Await(t *testing.T, name string) int {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(name); err == nil {
			n, err := strconv.Atoi(string(text))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("nothing came to be at", name)
	return 0
}

// Does are the words of a program of the test's.
func Does(words ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{self, Word}, words...)
}

// Command is a call of confine in a directory of the test's own.
func Command(t *testing.T, words ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), Confine, words...)
	c.Dir = t.TempDir()
	return c
}

// Run calls confine. What it can't even be called for is an error.
func Run(t *testing.T, c *exec.Cmd) (out, errs string, rc int) {
	t.Helper()
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	err := c.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return o.String(), e.String(), c.ProcessState.ExitCode()
}

// Report calls confine with --json.
func Report(t *testing.T, c *exec.Cmd) *status.Report {
	t.Helper()
	c.Args = append([]string{c.Args[0], "--json"}, c.Args[1:]...)
	out, errs, _ := Run(t, c)
	var r status.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %q, %q", err, out, errs)
	}
	return &r
}
