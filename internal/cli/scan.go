package cli

import (
	"strconv"
	"strings"

	"github.com/confine-run/confine/confine"
)

// Line is a command line, taken apart.
type Line struct {
	Settings []confine.Setting // in order, one per flag
	Rest     []string          // from the first word that is no option, untouched
	Help     bool              // -h or --help stood before Rest
	Ended    bool              // "--" stood before Rest
}

// Scan takes args apart: flags up to the first word that is none, or up to "--",
// which is dropped. The words after that belong to the command and are not even
// looked at. What values mean is not known here; see confine.Resolve.
//
// It is held against the parser of urfave/cli in a test. That one is not used
// to run commands because it looks at the words after "--" for the names of
// subcommands, takes -name for --name and an option's own text for its help, and
// costs half a millisecond at every start of the binary.
func Scan(takes Takes, args []string) (Line, error) {
	var line Line
	for len(args) > 0 {
		word := args[0]
		if len(word) < 2 || word[0] != '-' {
			break
		}
		args = args[1:]
		switch word {
		case "--":
			line.Rest, line.Ended = args, true
			return line, nil
		case "-h", "--help":
			line.Help = true
			continue
		}
		o, value, attached, err := flag(takes, word)
		if err != nil {
			return line, err
		}
		if !attached {
			switch {
			case o.IsBool():
				value = "true"
			case len(args) == 0:
				return line, &confine.UsageError{Msg: word + " needs a value: " + o.Arg, Hint: usageHint}
			default:
				value, args = args[0], args[1:]
			}
		}
		line.Settings = append(line.Settings, confine.Setting{Option: o.Name, Values: []string{value}})
	}
	line.Rest = args
	return line, nil
}

const usageHint = `"confine help run" lists all options`

// flag finds the option that word names, and the value in the same word:
// --name=value, -n=value or -nvalue.
func flag(takes Takes, word string) (o *confine.Option, value string, attached bool, err error) {
	if name, isLong := strings.CutPrefix(word, "--"); isLong {
		name, value, attached = strings.Cut(name, "=")
		if o = takes.lookup(name); o == nil || !takes.Has(o) {
			return nil, "", false, unknown(takes, name, word)
		}
		return o, value, attached, nil
	}
	name, _, _ := strings.Cut(word[1:], "=")
	if o := takes.lookup(name); len(name) > 1 && o != nil && takes.Has(o) {
		return nil, "", false, &confine.UsageError{
			Msg:  "unknown option " + strconv.Quote(word) + ", did you mean \"--" + name + "\"?",
			Hint: "only one letter follows a single dash",
		}
	}
	for o := range takes.options() {
		if o.Short == "" || o.Short[0] != word[1] {
			continue
		}
		value, attached = word[2:], len(word) > 2
		return o, strings.TrimPrefix(value, "="), attached, nil
	}
	return nil, "", false, unknown(takes, word[1:], word)
}

// unknown is the error for an option that isn't there, with the nearest that is.
func unknown(takes Takes, name, word string) error {
	err := &confine.UsageError{Msg: "unknown option " + strconv.Quote(word), Hint: usageHint}
	var names []string
	if o := confine.LookupOption(name); o != nil && o.FileOnly && takes.All() {
		err.Hint = "it can only be said in a file, as " + o.Key
		return err
	}
	for o := range takes.options() {
		names = append(names, o.Name)
	}
	if !takes.All() {
		err.Hint = `"confine help" lists the subcommands and their options`
	}
	if name == "version" {
		err.Hint = `"confine version" prints the version`
		return err
	}
	if positive, ok := strings.CutPrefix(name, "no-"); ok {
		if o := confine.LookupOption(positive); o != nil && takes.Has(o) && o.IsBool() {
			err.Hint = "write --" + positive + "=false"
			return err
		}
	}
	if near := confine.Nearest(name, append(names, "help")); near != "" && len(name) > 1 {
		err.Msg += ", did you mean \"--" + near + "\"?"
	}
	return err
}
