package conformance

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ProgramWord makes a test a program of the suite, where [Main] is asked first.
const ProgramWord = "__program"

// Main does what [Does] says, where this process is to, and ends it. more are further words; temp names the variable of the directory that
// is /tmp to the suite.
func Main(temp string, more map[string]func(words []string) error) {
	if len(os.Args) < 3 || os.Args[1] != ProgramWord {
		return
	}
	do := more[os.Args[2]]
	if do == nil {
		temp = strings.TrimRight(os.Getenv(temp), `/\`)
		do = func(words []string) error { return program(temp, os.Args[2], words) }
	}
	if err := do(os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Does are the words of a process that does what is said: this test, which calls [Main].
func Does(words ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{self, ProgramWord}, words...)
}

// FromTemp is a name of the suite's where temp is /tmp to it.
func FromTemp(name, temp string) string {
	if rest, ok := strings.CutPrefix(name, "/tmp"); ok && (rest == "" || rest[0] == '/') {
		return filepath.Join(temp, filepath.FromSlash(rest))
	}
	return name
}

func program(temp, does string, words []string) error {
	switch does {
	case "echo":
		fmt.Println(strings.Join(words, " "))
	case "err":
		fmt.Fprintln(os.Stderr, strings.Join(words, " "))
	case "cat":
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	case "exit":
		n, err := strconv.Atoi(words[0])
		if err == nil {
			os.Exit(n)
		}
		return err
	case "sleep", "denied":
		time.Sleep(100 * time.Second)
	case "write":
		return os.WriteFile(FromTemp(words[0], temp), []byte(words[1]), 0o600)
	case "read":
		text, err := os.ReadFile(FromTemp(words[0], temp))
		_, _ = os.Stdout.Write(text)
		return err
	case "env":
		fmt.Println(os.Getenv(words[0]))
	case "pwd":
		dir, err := os.Getwd()
		if rest, ok := strings.CutPrefix(dir, temp); ok {
			dir = "/tmp" + filepath.ToSlash(rest)
		}
		fmt.Println(dir)
		return err
	case "flood":
		for {
			fmt.Println("0123456789")
		}
	case "spin":
		for n := uint64(0); ; n++ {
			_ = n
		}
	case "burn":
		return exec.Command(os.Args[0], ProgramWord, "spin").Run()
	default:
		return errors.New("no such word")
	}
	return nil
}

// Shell gives the words of a process that does what is said, by a shell.
func Shell(does ...string) []string {
	script := map[string]string{
		"echo": `printf '%s\n' "$*"`, "cat": "cat", "exit": "exit $1", "sleep": "exec sleep 100", "write": `printf %s "$2" >"$1"`, "read": `cat "$1"`,
		"env": `eval "printf '%s\n' \"\$$1\""`, "pwd": "pwd", "size": "stty size", "err": `printf '%s\n' "$*" >&2`, "burn": "(while :; do :; done) & wait", "flood": "while :; do echo 0123456789; done",
		"denied": "mount -t tmpfs none /tmp; exec sleep 100",
	}[does[0]]
	return append([]string{"sh", "-c", script, does[0]}, does[1:]...)
}
