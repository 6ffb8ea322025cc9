package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shellOrSkip finds a shell. CONFINE_MUST_RUN=bash,zsh,fish makes a missing one a failure.
func shellOrSkip(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if slices.Contains(strings.Split(os.Getenv("CONFINE_MUST_RUN"), ","), name) {
		t.Fatal(err)
	}
	t.Skip(err)
	return ""
}

func script(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBashCompletion drives the script as bash does: the words, cut at "=".
func TestBashCompletion(t *testing.T) {
	bash := shellOrSkip(t, "bash")
	dir := t.TempDir()
	for _, f := range []string{"policy.toml", "zeta"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := script(t, "completion.bash", bashCompletion())
	const driver = `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _confine 2>&1; printf '%s\n' "${COMPREPLY[@]}"`
	for _, c := range []struct {
		words []string
		want  []string // some of the answers
		not   []string // none of the answers
	}{
		{[]string{"confine", "expl"}, []string{"explain"}, []string{"doctor"}},
		{[]string{"confine", "bas"}, []string{"bash"}, nil},
		{[]string{"confine", "--time"}, []string{"--time-limit"}, []string{"--json"}},
		{[]string{"confine", "--profile", "str"}, []string{"strict"}, []string{"default"}},
		{[]string{"confine", "-p", ""}, []string{"strict", "default"}, []string{"run"}},
		{[]string{"confine", "--tty", "="}, []string{"always", "never"}, nil},
		{[]string{"confine", "--tty", "=", "al"}, []string{"always"}, []string{"never"}},
		{[]string{"confine", "--block-internal", "=", "f"}, []string{"false"}, []string{"true"}},
		{[]string{"confine", "--config", "pol"}, []string{"policy.toml"}, nil},
		{[]string{"confine", "-t", "5s", "--lo"}, []string{"--log", "--log-format", "--log-network"}, []string{"--json"}},
		{[]string{"confine", "run", "--js"}, []string{"--json"}, nil},
		{[]string{"confine", "explain", "--json", "bas"}, []string{"bash"}, nil},
		{[]string{"confine", "ls", "--js"}, nil, []string{"--json"}},
		{[]string{"confine", "ls", "ze"}, []string{"zeta"}, nil},
		{[]string{"confine", "--", "ls", "ze"}, []string{"zeta"}, nil},
		{[]string{"confine", "completion", ""}, []string{"bash", "zsh", "fish"}, []string{"run"}},
		{[]string{"confine", "help", "expl"}, []string{"explain"}, nil},
		{[]string{"confine", "profiles", "te"}, []string{"testing"}, nil},
		{[]string{"confine", "doctor", "--"}, []string{"--json"}, []string{"--time-limit"}},
		{[]string{"confine", "shell", "--ti"}, []string{"--time-limit"}, nil},
		{[]string{"confine", "shell", "ze"}, nil, []string{"zeta"}},
		{[]string{"confine", "seccomp", ""}, []string{"show", "check", "diff"}, []string{"zeta"}},
		{[]string{"confine", "seccomp", "check", "pol"}, []string{"policy.toml"}, []string{"show"}},
		{[]string{"confine", "seccomp", "show", "--"}, []string{"--bpf", "--arch", "--json"}, []string{"--time-limit"}},
		{[]string{"confine", "seccomp", "show", "--arch", "a"}, []string{"amd64", "arm64"}, nil},
	} {
		cmd := exec.Command(bash, append([]string{"--norc", "-c", driver, "bash", path}, c.words...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", c.words, err, out)
		}
		got := strings.Split(strings.TrimSpace(string(out)), "\n")
		for _, w := range c.want {
			if !slices.Contains(got, w) {
				t.Errorf("%q: %q is missing in %.300q", c.words, w, got)
			}
		}
		for _, w := range c.not {
			if slices.Contains(got, w) {
				t.Errorf("%q: %q should not be offered", c.words, w)
			}
		}
	}
}

func TestFishCompletion(t *testing.T) {
	fish := shellOrSkip(t, "fish")
	path := script(t, "confine.fish", fishCompletion())
	for _, c := range []struct {
		line string
		want []string
		not  []string
	}{
		{"confine expl", []string{"explain"}, []string{"doctor"}},
		{"confine --time", []string{"--time-limit"}, []string{"--json"}},
		{"confine --profile str", []string{"strict"}, nil},
		{"confine --tty=al", []string{"--tty=always"}, nil},
		{"confine -t 5s --js", []string{"--json"}, nil},
		{"confine run --js", []string{"--json"}, nil},
		{"confine ls --js", nil, []string{"--json"}},
		{"confine -- ls --js", nil, []string{"--json"}},
		{"confine doctor --js", []string{"--json"}, nil},
		{"confine doctor --ti", nil, []string{"--time-limit"}},
		{"confine completion ", []string{"bash", "zsh", "fish"}, nil},
		{"confine help expl", []string{"explain"}, nil},
		{"confine seccomp ", []string{"show", "check", "diff"}, nil},
		{"confine profiles te", []string{"testing"}, nil},
	} {
		cmd := exec.Command(fish, "--no-config", "-c", `source $argv[1]; complete -C $argv[2]`, path, c.line)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", c.line, err, out)
		}
		var got []string
		for line := range strings.Lines(string(out)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got = append(got, word)
		}
		for _, w := range c.want {
			if !slices.Contains(got, w) {
				t.Errorf("%q: %q is missing in %.300q", c.line, w, got)
			}
		}
		for _, w := range c.not {
			if slices.Contains(got, w) {
				t.Errorf("%q: %q should not be offered", c.line, w)
			}
		}
	}
}

// TestZshCompletion loads the script the way .zshrc does, on a terminal of zsh's
// own (zpty), and presses the tabulator.
func TestZshCompletion(t *testing.T) {
	zsh := shellOrSkip(t, "zsh")
	path := script(t, "_confine", zshCompletion())
	if out, err := exec.Command(zsh, "-f", "-n", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	driver := script(t, "driver.zsh", []byte(zshDriver))
	home := t.TempDir() // the first case leaves a dump there, which saves the others seconds
	for _, c := range []struct {
		line string
		want []string
		not  []string
	}{
		{"confine expl", []string{"explain"}, nil},
		{"confine --time", []string{"--time-limit"}, nil},
		{"confine --profile ", []string{"strict", "testing"}, nil},
		{"confine --log", []string{"--log-format", "--log-network"}, []string{"--json"}},
		{"confine -t 5s --js", []string{"--json"}, nil},
		{"confine run --js", []string{"--json"}, nil},
		{"confine explain --js", []string{"--json"}, nil},
		{"confine completion ", []string{"bash", "fish"}, nil},
		{"confine help expl", []string{"explain"}, nil},
		{"confine seccomp ", []string{"show", "check", "diff"}, nil},
		{"confine profiles te", []string{"testing"}, nil},
		{"confine doctor --js", []string{"--json"}, nil},
		{"confine true --js", nil, []string{"--json"}},
	} {
		cmd := exec.Command(zsh, "-f", driver, path, c.line)
		cmd.Env = append(os.Environ(), "HOME="+home, "TERM=dumb")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", c.line, err, out)
		}
		for _, w := range c.want {
			if !strings.Contains(string(out), w) {
				t.Errorf("%q: %q is missing in %q", c.line, w, out)
			}
		}
		for _, w := range c.not {
			if strings.Contains(string(out), w) {
				t.Errorf("%q: %q should not be offered", c.line, w)
			}
		}
	}
}

// zshDriver answers with everything that zsh would offer for a line: each match
// passes compadd, which is told to hand them over.
const zshDriver = `
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PROMPT=; unsetopt zle_bracketed_paste; autoload -U compinit; compinit -u -d $HOME/dump; source $1"
zpty -w z 'compadd() {
    local -a hits
    builtin compadd -A hits "$@"
    print -l -- "[MATCH]"$^hits"[/MATCH]" >&2
    builtin compadd "$@"
}
answer() { _main_complete; compstate[insert]=; compstate[list]=; print "[DONE]" >&2 }
zle -C answer complete-word answer
bindkey "^I" answer
print "[RE""ADY]"'
zpty -r -m z out '*\[READY\]*'
zpty -w -n z "$2"$'\t'
zpty -r -m z out '*\[DONE\]*'
zpty -d z
print -r -- ${(F)${(M)${(f)out}:#*\[MATCH\]*}}
`
