package cli

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

func TestArgumentsReachTheCommandUntouched(t *testing.T) {
	inTemp(t)
	long := make([]string, 50_000)
	for i := range long {
		long[i] = strings.Repeat("x", 100)
	}
	for _, c := range []struct {
		name string
		args []string
		argv []string
	}{
		{"a bare command", []string{"ls"}, []string{"ls"}},
		{"a command that looks like a subcommand", []string{"lss"}, []string{"lss"}},
		{"options of the command", []string{"ls", "-l", "--color=auto"}, []string{"ls", "-l", "--color=auto"}},
		{"options of ours after the command", []string{"ls", "--json", "-t", "5s"}, []string{"ls", "--json", "-t", "5s"}},
		{"help after the command", []string{"ls", "--help"}, []string{"ls", "--help"}},
		{"version after the command", []string{"ls", "-v", "--version"}, []string{"ls", "-v", "--version"}},
		{"dashes before", []string{"--", "ls", "-l"}, []string{"ls", "-l"}},
		{"dashes after", []string{"ls", "--", "-l"}, []string{"ls", "--", "-l"}},
		{"dashes before and after", []string{"--", "ls", "--"}, []string{"ls", "--"}},
		{"dashes twice", []string{"--", "--", "ls"}, []string{"--", "ls"}},
		{"a command that starts with a dash", []string{"--", "-x"}, []string{"-x"}},
		{"a single dash", []string{"-", "x"}, []string{"-", "x"}},
		{"a subcommand's name after dashes", []string{"--", "run"}, []string{"run"}},
		{"another", []string{"--", "version"}, []string{"version"}},
		{"help after dashes", []string{"--", "--help"}, []string{"--help"}},
		{"help as a word after dashes", []string{"--", "help"}, []string{"help"}},
		{"run", []string{"run", "ls", "-l"}, []string{"ls", "-l"}},
		{"run and dashes", []string{"run", "--", "ls"}, []string{"ls"}},
		{"run twice", []string{"run", "run"}, []string{"run"}},
		{"run and a subcommand's name", []string{"run", "doctor"}, []string{"doctor"}},
		{"run, dashes, run", []string{"run", "--", "run"}, []string{"run"}},
		{"a subcommand's name after an option", []string{"-t", "5s", "doctor"}, []string{"doctor"}},
		{"one that isn't there yet, after dashes", []string{"--", "session"}, []string{"session"}},
		{"long option, value apart", []string{"--time-limit", "5s", "--", "ls"}, []string{"ls"}},
		{"long option, value attached", []string{"--time-limit=5s", "ls"}, []string{"ls"}},
		{"short option, value apart", []string{"-t", "5s", "ls"}, []string{"ls"}},
		{"short option, value attached", []string{"-t5s", "ls"}, []string{"ls"}},
		{"short option, value after =", []string{"-t=5s", "ls"}, []string{"ls"}},
		{"empty words", []string{"ls", "", "", "x", ""}, []string{"ls", "", "", "x", ""}},
		{"invalid UTF-8", []string{"ls", "a\xff\xfe"}, []string{"ls", "a\xff\xfe"}},
		{"line breaks and escapes", []string{"ls", "a\nb\x1b[2J"}, []string{"ls", "a\nb\x1b[2J"}},
		{"commas", []string{"ls", "a,b"}, []string{"ls", "a,b"}},
		{"a command with spaces", []string{"my prog"}, []string{"my prog"}},
		{"five megabytes", append([]string{"ls"}, long...), append([]string{"ls"}, long...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var fake call
			r := fake.run(t, c.args...)
			if r.rc != 0 || r.out != "" || r.err != "" {
				t.Fatalf("rc %d, stdout %q, stderr %q", r.rc, r.out, r.err)
			}
			if !slices.Equal(r.fake.argv, c.argv) {
				t.Errorf("the command is %.200q, want %.200q", r.fake.argv, c.argv)
			}
		})
	}
}

func TestUsageErrorsStartNothing(t *testing.T) {
	inTemp(t)
	for _, c := range []struct {
		name string
		args []string
		says string // in stderr
	}{
		{"nothing", nil, "no command"},
		{"only dashes", []string{"--"}, "no command"},
		{"only options", []string{"--time-limit", "5s"}, "no command"},
		{"run and nothing", []string{"run"}, "no command"},
		{"explain and nothing", []string{"explain"}, "no command"},
		{"unknown option", []string{"--tiem-limit", "5s", "ls"}, `did you mean "--time-limit"?`},
		{"unknown option with a value", []string{"--memory-limits=5M", "ls"}, `did you mean "--memory-limit"?`},
		{"underscore for dash", []string{"--time_limit", "5s", "ls"}, `did you mean "--time-limit"?`},
		{"prefix of an option", []string{"--mem", "5M", "ls"}, `unknown option "--mem"`},
		{"unknown letter", []string{"-z", "ls"}, `unknown option "-z"`},
		{"a letter that is none", []string{"-v"}, `unknown option "-v"`},
		{"one dash for two", []string{"-time-limit", "5s", "ls"}, `did you mean "--time-limit"?`},
		{"one dash for two, with a value", []string{"-time-limit=5s", "ls"}, `did you mean "--time-limit"?`},
		{"three dashes", []string{"---json", "ls"}, `unknown option "---json"`},
		{"only in a file", []string{"--protect", "x", "ls"}, "filesystem.protect"},
		{"no- before a switch", []string{"--no-block-internal", "ls"}, "--block-internal=false"},
		{"value missing", []string{"--time-limit"}, "needs a value"},
		{"short value missing", []string{"-t"}, "needs a value"},
		{"bad value", []string{"-t", "soon", "ls"}, "time-limit"},
		{"switch with a word", []string{"--json=maybe", "ls"}, "json"},
		{"unknown profile", []string{"-p", "testin", "ls"}, `"testing"`},
		{"version after an option", []string{"--json", "--version"}, `"confine version"`},
		{"not there yet", []string{"session", "--", "ls"}, "which is for Linux alone"},
		{"not there yet, alone", []string{"serve"}, "which is for Linux alone"},
		{"not there yet, words", []string{"session", "new"}, "which is for Linux alone"},
		{"learn from nothing", []string{"learn"}, "learn: no command"},
		{"learn from another profile", []string{"learn", "-p", "testing", "--", "ls"}, "starts from the profile"},
		{"learn without the gateway", []string{"learn", "--allow-network", "all", "--", "ls"}, "nobody would see"},
		{"learn to a descriptor", []string{"learn", "-o", "fd:1", "--", "ls"}, "it has to be a file"},
		{"learn by the name of one that ships", []string{"learn", "--name", "strict", "--", "ls"}, "can't be the name"},
		{"learn with what isn't there", []string{"learn", "--merge", "no.toml", "--", "ls"}, "no.toml"},
		{"doctor with a word", []string{"doctor", "now"}, `unexpected word "now"`},
		{"doctor with an option of run", []string{"doctor", "-t", "5s"}, `unknown option "-t"`},
		{"shell with a command", []string{"shell", "ls"}, `unexpected word "ls"`},
		{"completion of nothing", []string{"completion"}, "no shell"},
		{"completion of another shell", []string{"completion", "fisch"}, `did you mean "fish"?`},
		{"help on nothing there is", []string{"help", "explian"}, `did you mean "explain"?`},
		{"a profile that isn't there", []string{"profiles", "stritc"}, `did you mean "strict"?`},
		{"help on nothing near", []string{"help", "nosuch"}, "hint: there are: run, explain"},
		{"completion of a shell that nothing is near to", []string{"completion", "powershell"}, "hint: there are: bash, zsh, fish"},
		{"a profile that nothing is near to", []string{"profiles", "nosuch"}, "hint: there are: default, "},
		{"two profiles", []string{"profiles", "strict", "default"}, `unexpected word "default"`},
		{"trust of nothing", []string{"trust"}, "confine.toml"},
		{"trust of an empty name", []string{"trust", ""}, "empty"},
		{"escape in an option", []string{"--\x1b[2Jx", "ls"}, `\x1b[2Jx`},
		{"report and events in one place", []string{"--report", "fd:9", "--events", "fd:9", "ls"}, "both write to"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var fake call
			r := fake.run(t, c.args...)
			nothingStarted(t, r)
			if !strings.Contains(r.err, c.says) {
				t.Errorf("stderr doesn't say %q:\n%s", c.says, r.err)
			}
			if strings.Contains(r.err, "\x1b") {
				t.Errorf("stderr has an escape in it: %q", r.err)
			}
		})
	}
}

func TestEverySubcommandIsKnown(t *testing.T) {
	inTemp(t)
	for _, c := range Commands() {
		var fake call
		if r := fake.run(t, c.Name, "--help"); r.rc != 0 || !strings.HasPrefix(r.out, "confine "+c.Name+" - ") || r.err != "" {
			t.Errorf("%s --help: rc %d, %.60q, %q", c.Name, r.rc, r.out, r.err)
		}
		if r := fake.run(t, "help", c.Name); r.rc != 0 || !strings.HasPrefix(r.out, "confine "+c.Name+" - ") {
			t.Errorf("help %s: rc %d, %.60q", c.Name, r.rc, r.out)
		}
		if r := fake.run(t, c.Name); c.Program != "" && (r.rc != 125 || !strings.Contains(r.err, "which is for Linux alone")) {
			t.Errorf("%s: rc %d, %q", c.Name, r.rc, r.err)
		}
	}
}

func TestHelp(t *testing.T) {
	inTemp(t)
	for _, args := range [][]string{{"help"}, {"--help"}, {"-h"}} {
		var fake call
		if r := fake.run(t, args...); r.rc != 0 || !strings.Contains(r.out, "SUBCOMMANDS") || r.err != "" {
			t.Errorf("%q: rc %d, %.60q, %q", args, r.rc, r.out, r.err)
		}
	}
	for _, args := range [][]string{{"-t", "5s", "--help"}, {"--json", "-h", "ls"}} {
		var fake call
		if r := fake.run(t, args...); r.rc != 0 || !strings.Contains(r.out, "--time-limit") || r.fake.argv != nil {
			t.Errorf("%q: rc %d, %.60q, %q", args, r.rc, r.out, r.fake.argv)
		}
	}
}

// What the caller's Ctrl-C ended is not to look like an exit.
func TestASignalThatEndedTheCommandEndsThisProcess(t *testing.T) {
	inTemp(t)
	for _, c := range []struct {
		name   string
		report status.Report
		want   string
	}{
		{"passed on", status.Report{Status: status.KilledSignal, Cause: status.CauseCaller, Signal: "SIGINT", RC: 130}, "SIGINT"},
		{"the other key", status.Report{Status: status.KilledSignal, Cause: status.CauseCaller, Signal: "SIGQUIT", RC: 131}, "SIGQUIT"},
		{"its own", status.Report{Status: status.KilledSignal, Cause: status.CauseSignal, Signal: "SIGINT", RC: 130}, ""},
		{"handled", status.Report{Status: status.Failed, Cause: status.CauseCaller, RC: 130}, ""},
		{"no key", status.Report{Status: status.KilledSignal, Cause: status.CauseCaller, Signal: "SIGHUP", RC: 129}, ""},
		{"killed after it", status.Report{Status: status.KilledKill, Cause: status.CauseCaller, Signal: "SIGKILL", RC: 137}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, pressed := range []bool{false, true} {
				f, died, job := fake{report: &c.report}, "", false
				e := f.engine()
				run := e.Run
				e.Run = func(ctx context.Context, r *config.Resolved, argv []string, io RunIO) (*status.Report, error) {
					if pressed {
						io.Pressed()
					}
					return run(ctx, r, argv, io)
				}
				e.DieBy = func(signal string, all bool) {
					if _, err := os.Stat("r.json"); err != nil {
						t.Error("before the report is written")
					}
					died, job = signal, all
				}
				p := Process{Args: []string{"--report", "r.json", "x"}, Out: func([]byte) error { return nil }, Err: func([]byte) error { return nil }}
				if rc := p.Main(t.Context(), e); rc != c.report.RC || died != c.want || job != (pressed && died != "") {
					t.Errorf("rc %d, by %q, the job %v", rc, died, job)
				}
				_ = os.Remove("r.json")
			}
		})
	}
}

func TestHelpHasEveryOptionInShortLines(t *testing.T) {
	pages := map[string]string{"": programPage()}
	for _, c := range commands {
		pages[c.Name] = commandPage(&c)
		if !strings.Contains(pages[""], "\n  "+c.Name+" ") {
			t.Errorf("%s is missing", c.Name)
		}
		for _, o := range c.Flags() {
			if c.Program == "" && !strings.Contains(pages[c.Name], "--"+o.Name) {
				t.Errorf("%s: --%s is missing", c.Name, o.Name)
			}
		}
	}
	for name, text := range pages {
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); len([]rune(line)) > lineWidth || strings.TrimRight(line, " ") != line {
				t.Errorf("%s: %q", name, line)
			}
		}
	}
}
