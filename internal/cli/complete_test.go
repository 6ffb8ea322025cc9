//go:build unix

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

// TestMain: the completion scripts call this program, by the name of the real one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == completeWord {
		os.Exit(Main(Engine{}))
	}
	os.Exit(m.Run())
}

// completed are command lines, words apart, and some of what has to be offered, and what not.
var completed = []struct{ line, want, not string }{
	{"confine expl", "explain", "doctor"},
	{"confine bas", "bash", ""},
	{"confine --time", "--time-limit", "--json"},
	{"confine --profile str", "strict", "testing"},
	{"confine --profile ", "strict testing", "run"},
	{"confine --tty=al", "always", "never"},
	{"confine --block-internal=f", "false", "true"},
	{"confine --config pol", "policy.toml", "zeta"},
	{"confine --config=pol", "policy.toml", "zeta"},
	{"confine -t 5s --lo", "--log --log-format --log-network", "--json"},
	{"confine --mount a:b --js", "--json", ""},
	{"confine run --js", "--json", ""},
	{"confine explain --json bas", "bash", ""},
	{"confine explain --acc", "--access", ""},
	{"confine ls --js", "", "--json"},
	{"confine -- ls --js", "", "--json"},
	{"confine ls ze", "zeta", ""},
	{"confine -- ls ze", "zeta", ""},
	{"confine completion ", "bash zsh fish", "run"},
	{"confine completion bash ", "", "zsh zeta"},
	{"confine help expl", "explain", "doctor"},
	{"confine profiles te", "testing", "strict"},
	{"confine doctor --", "--json", "--time-limit"},
	{"confine doctor ", "", "zeta"},
	{"confine shell --ti", "--time-limit", ""},
	{"confine shell ze", "", "zeta"},
	{"confine trust pol", "policy.toml", ""},
	{"confine diff -p ze", "zeta", "policy.toml"},
	{"confine seccomp ", "show check diff", "zeta"},
	{"confine seccomp check pol", "policy.toml", "show"},
	{"confine seccomp show --", "--bpf --arch --json", "--time-limit"},
	{"confine seccomp show --arch a", "amd64 arm64", ""},
}

// TestCompletion drives each script as its shell does.
func TestCompletion(t *testing.T) {
	for name, driver := range map[string]string{"bash": bashDriver, "fish": fishDriver, "zsh": zshDriver} {
		t.Run(name, func(t *testing.T) {
			shell, err := exec.LookPath(name)
			if err != nil {
				if slices.Contains(strings.Split(os.Getenv("CONFINE_MUST_RUN"), ","), name) {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			dir, bin := t.TempDir(), t.TempDir()
			script, err := shells.ReadFile("shells/completion." + name)
			self, err2 := os.Executable()
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			must.Do(t, os.WriteFile(filepath.Join(bin, "_confine"), script, 0o600))
			must.Do(t, os.WriteFile(filepath.Join(bin, "driver"), []byte(driver), 0o600))
			must.Do(t, os.WriteFile(filepath.Join(dir, "policy.toml"), nil, 0o600))
			must.Do(t, os.WriteFile(filepath.Join(dir, "zeta"), nil, 0o600))
			must.Do(t, os.Symlink(self, filepath.Join(bin, "confine")))
			for _, c := range completed {
				cmd := exec.Command(shell, filepath.Join(bin, "driver"), filepath.Join(bin, "_confine"), c.line)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+bin, "TERM=dumb")
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%q: %v\n%s", c.line, err, out)
				}
				got := strings.Fields(strings.NewReplacer("[MATCH]", " ", "[/MATCH]", " ", "=", " ").Replace(string(out)))
				for w := range strings.FieldsSeq(c.want) {
					if !slices.Contains(got, w) {
						t.Errorf("%q: %q is missing in %.300q", c.line, w, got)
					}
				}
				for w := range strings.FieldsSeq(c.not) {
					if slices.Contains(got, w) {
						t.Errorf("%q: %q should not be offered", c.line, w)
					}
				}
			}
		})
	}
}

// bashDriver cuts the line as bash does.
const bashDriver = `source "$1"; line=$2; cut=${line//=/ = }; cut=${cut//:/ : }
read -ra COMP_WORDS <<<"$cut"; [[ $line == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _confine; printf '%s\n' "${COMPREPLY[@]}"
`

const fishDriver = `source $argv[1]; complete -C $argv[2]
`

// zshDriver presses the tabulator on a terminal of zsh's own (zpty), and answers with everything that
// would be offered: each match passes compadd, which is told to hand them over.
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
