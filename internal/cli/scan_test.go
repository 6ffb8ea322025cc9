package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
)

// flat is a line as words: option=value for each setting.
func flat(l Line) (settings []string) {
	for _, s := range l.Settings {
		settings = append(settings, s.Option+"="+s.Values[0])
	}
	return settings
}

func TestScanSettings(t *testing.T) {
	for _, c := range []struct {
		name     string
		args     []string
		settings []string
		rest     []string
	}{
		{"order is kept", []string{"--log=quiet", "-t", "1s", "--log", "verbose", "x"}, []string{"log=quiet", "time-limit=1s", "log=verbose"}, []string{"x"}},
		{"a switch", []string{"--json", "x"}, []string{"json=true"}, []string{"x"}},
		{"a switch that is off", []string{"--block-internal=false", "x"}, []string{"block-internal=false"}, []string{"x"}},
		{"a switch takes no next word", []string{"--json", "false"}, []string{"json=true"}, []string{"false"}},
		{"= in a value", []string{"--env=A=b=c", "x"}, []string{"env=A=b=c"}, []string{"x"}},
		{"an empty value", []string{"--env=", "x"}, []string{"env="}, []string{"x"}},
		{"an empty value apart", []string{"--env", "", "x"}, []string{"env="}, []string{"x"}},
		{"commas stay", []string{"--env", "A=1,2", "x"}, []string{"env=A=1,2"}, []string{"x"}},
		{"a value that is an option", []string{"--chdir", "--json", "x"}, []string{"chdir=--json"}, []string{"x"}},
		{"a value that is dashes", []string{"--chdir", "--", "x"}, []string{"chdir=--"}, []string{"x"}},
		{"short with = in its value", []string{"-p=a=b", "x"}, []string{"profile=a=b"}, []string{"x"}},
		{"short with its value", []string{"-C/tmp", "-m5M", "x"}, []string{"chdir=/tmp", "memory-limit=5M"}, []string{"x"}},
		{"an empty word is a command", []string{"--json", "", "x"}, []string{"json=true"}, []string{"", "x"}},
		{"dashes after options", []string{"--json", "--", "--json"}, []string{"json=true"}, []string{"--json"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			line, err := Scan(TakesAll, c.args)
			must.Do(t, err)
			if got := flat(line); !slices.Equal(got, c.settings) || !slices.Equal(line.Rest, c.rest) {
				t.Errorf("%q then %q, want %q then %q", got, line.Rest, c.settings, c.rest)
			}
		})
	}
}

func TestEveryOptionCanBeTyped(t *testing.T) {
	for _, o := range config.Options() {
		_, err := Scan(TakesAll, []string{"--" + o.Name + "=v", "x"})
		if (err == nil) == o.FileOnly {
			t.Errorf("--%s: %v", o.Name, err)
		}
		if o.Short == "" {
			continue
		}
		line, err := Scan(TakesAll, []string{"-" + o.Short, "v", "x"})
		if err != nil || line.Settings[0].Option != o.Name {
			t.Errorf("-%s: %v, %v", o.Short, line, err)
		}
	}
}

func FuzzScan(f *testing.F) {
	for _, seed := range []string{"--json\x00ls\x00-l", "-t5s\x00--\x00run", "--env\x00A=b\x00x", "-\x00", "--x", "\x00\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\x00")
		line, err := Scan(TakesAll, args)
		if err != nil {
			return
		}
		// The rest is the end of the words, untouched, and starts where flags end.
		n := len(args) - len(line.Rest)
		if n < 0 || !slices.Equal(args[n:], line.Rest) {
			t.Fatalf("%q: the rest is %q", args, line.Rest)
		}
		ended := n > 0 && args[n-1] == "--"
		if !ended && len(line.Rest) > 0 && len(line.Rest[0]) > 1 && line.Rest[0][0] == '-' {
			t.Fatalf("%q: stopped at the option %q", args, line.Rest[0])
		}
		if len(line.Settings) > n {
			t.Fatalf("%q: %d settings out of %d words", args, len(line.Settings), n)
		}
		for _, s := range line.Settings {
			if config.LookupOption(s.Option) == nil || len(s.Values) != 1 {
				t.Fatalf("%q: setting %v", args, s)
			}
		}
		// Words that stand before don't change what stands behind.
		again, err := Scan(TakesAll, append([]string{"--json"}, args...))
		if err != nil || !slices.Equal(again.Rest, line.Rest) || len(again.Settings) != len(line.Settings)+1 {
			t.Fatalf("%q: behind --json: %v, %v", args, again, err)
		}
	})
}

// An option of ours is none of another program's, and what is said instead exists.
func TestPeersOptionsAreAnsweredWithOurs(t *testing.T) {
	for _, p := range peers {
		for name := range strings.FieldsSeq(p.names) {
			word := "--" + name
			if len(name) == 1 {
				word = "-" + name
			}
			_, err := Scan(TakesAll, []string{word, "x", "y"})
			if usage, ok := errors.AsType[*config.UsageError](err); !ok || usage.Hint != p.hint || strings.Contains(usage.Msg, "did you mean") {
				t.Errorf("%s: %v", word, err)
			}
		}
		for word := range strings.FieldsSeq(p.hint) {
			if name, ok := strings.CutPrefix(strings.TrimRight(word, ",;"), "--"); ok {
				if o := config.LookupOption(name); o == nil || o.FileOnly {
					t.Errorf("%s: there is no --%s", p.names, name)
				}
			}
		}
	}
	for _, word := range []string{"-it", "-Rx:y", "-v/a:/b", "--net=none", "--rlimit_as=5", "--caps.drop=all"} {
		if _, err := Scan(TakesAll, []string{word, "x"}); err == nil || strings.Contains(err.Error(), usageHint) {
			t.Errorf("%s: %v", word, err)
		}
	}
	if _, err := Scan(TakesJSON, []string{"--net"}); err == nil || strings.Contains(err.Error(), "allow-network") {
		t.Errorf("where it can't be said: %v", err)
	}
}
