package main

import (
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/urfave/cli/v2"

	command "github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
)

// byLibrary is what urfave/cli makes of the words of "confine run": the last value
// of each option (all of a list), and the rest.
func byLibrary(t *testing.T, args []string) (settings map[string][]string, rest []string, err error) {
	t.Helper()
	app := newApp(io.Discard)
	app.HideHelp = true
	app.ExitErrHandler = func(*cli.Context, error) {}
	run := app.Commands[0]
	run.HideHelp = true
	run.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return err }
	run.Action = func(ctx *cli.Context) error {
		settings, rest = map[string][]string{}, ctx.Args().Slice()
		for _, o := range flags() {
			switch {
			case !ctx.IsSet(o.Name):
			case o.IsList():
				settings[o.Name] = ctx.StringSlice(o.Name)
			case o.IsBool() && ctx.Bool(o.Name):
				settings[o.Name] = []string{"true"}
			case o.IsBool():
				settings[o.Name] = []string{"false"}
			default:
				settings[o.Name] = []string{ctx.String(o.Name)}
			}
		}
		return nil
	}
	err = app.Run(append([]string{"confine", "run"}, args...))
	return settings, rest, err
}

func byScan(args []string) (map[string][]string, []string, error) {
	line, err := command.Scan(command.TakesAll, args)
	settings := map[string][]string{}
	for _, s := range line.Settings {
		if config.LookupOption(s.Option).IsList() {
			settings[s.Option] = append(settings[s.Option], s.Values...)
		} else {
			settings[s.Option] = s.Values
		}
	}
	return settings, line.Rest, err
}

// TestScanAgreesWithTheLibrary: the same words, taken apart by both. Words on which the
// two differ on purpose are left out: -name, -nvalue, -n beside --name, values of
// switches that are no truth values, and --help.
func TestScanAgreesWithTheLibrary(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	options := flags()
	values := []string{"5s", "a,b", "a=b", "x y", "", "-", "--", "-x", "--json", "ls", "run", "ä\xff"}
	word := func(short bool) []string {
		o := options[random.IntN(len(options))]
		v := values[random.IntN(len(values))]
		name := "--" + o.Name
		if o.Short != "" && short {
			name = "-" + o.Short
		}
		switch {
		case o.IsBool():
			return []string{name + []string{"", "=true", "=false"}[random.IntN(3)]}
		case random.IntN(2) == 0:
			return []string{name + "=" + v}
		}
		return []string{name, v}
	}
	const lines = 800
	errors := 0
	for range lines {
		var args []string
		short := random.IntN(2) == 0
		for range random.IntN(5) {
			args = append(args, word(short)...)
		}
		switch random.IntN(8) {
		case 0:
			args = append(args, "--no-such-option")
		case 1:
			args = append(args, "--cpu-time") // its value may be missing
		case 2, 3:
			args = append(args, "--")
		}
		for range random.IntN(4) {
			args = append(args, []string{"ls", "-l", "--json", "--", "", "run", "-z9"}[random.IntN(7)])
		}
		want, wantRest, wantErr := byLibrary(t, args)
		got, gotRest, gotErr := byScan(args)
		if (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("%q: the library says %v, Scan says %v", args, wantErr, gotErr)
		}
		if wantErr != nil {
			errors++
			continue
		}
		if !slices.Equal(gotRest, wantRest) {
			t.Fatalf("%q: the library leaves %q, Scan leaves %q", args, wantRest, gotRest)
		}
		for _, o := range options {
			if !slices.Equal(got[o.Name], want[o.Name]) {
				t.Fatalf("%q: --%s is %q for the library, %q for Scan", args, o.Name, want[o.Name], got[o.Name])
			}
		}
	}
	if errors == 0 || errors > lines/2 {
		t.Errorf("%d of %d lines were mistakes: the words are badly chosen", errors, lines)
	}
}
