package confine

import (
	"strings"
)

// Kind is what the words of an option are.
type Kind uint8

const (
	KindText     Kind = iota + 1 // one word, checked by the option itself
	KindWord                     // one of Option.Words, or, where Option.Paths is set, a path
	KindBool                     // true or false
	KindCount                    // a whole number, or "none"
	KindPercent                  // "50" or "50%", or "none"
	KindSize                     // "512M", or "none"
	KindDuration                 // "1.5m", or "none"
	KindList                     // repeatable; what several places say adds up
)

// Option is one thing that can be said about a run, wherever it is said: as a
// flag, in the environment, in a file or by a profile. One table of them drives
// the command line, its help, the man page, completion and explain.
type Option struct {
	Name  string   // flag without dashes: "time-limit"
	Short string   // one letter, "t"; "" if none
	Key   string   // in a file, below [sandbox]: "network.allow_domains"; "" if it can't be said in a file
	Also  []string // other keys that say the same
	Kind  Kind
	Arg   string   // stands for the value in help: "SIZE"
	Words []string // the values, where they are a closed set
	Help  string   // one line
	Group string   // heading in help

	// Paths: the values are paths. Relative ones are relative to the current
	// directory or the file's folder, "~" is the home directory, and in the
	// environment a list is separated as PATH is. Other lists are separated by commas.
	Paths bool
	// Run: says how the command is run and reported, and is no part of the
	// policy. It lands in Invocation.
	Run bool
	// FileOnly: there is neither a flag nor an environment twin.
	FileOnly bool

	field  func(*Resolved) any                           // points to where the value lives
	check  func(base place, word string) (string, error) // one word to its canonical form
	commas bool                                          // one word on the command line can hold several, separated by commas
	later  bool                                          // off is as if there were no such option: digests from before hold
	zero   bool                                          // 0 is a value and not a mistake
}

// Headings of help, in the order in which they are shown.
const (
	GroupProfile     = "Profile"
	GroupLimits      = "Limits"
	GroupNetwork     = "Network"
	GroupFilesystem  = "Filesystem"
	GroupEnvironment = "Environment"
	GroupIsolation   = "System calls and isolation"
	GroupEnforcement = "Enforcement"
	GroupOutput      = "Report and terminal"
)

// Options is the table of all options, in the order of help. It is not to be changed.
func Options() []Option { return options[:] }

// LookupOption finds an option by its name, or nil.
func LookupOption(name string) *Option {
	for i := range options {
		if options[i].Name == name {
			return &options[i]
		}
	}
	return nil
}

const envPrefix = "CONFINE_"

// EnvName is the environment twin: "CONFINE_TIME_LIMIT". It is empty for an
// option that can only be said in a file.
func (o *Option) EnvName() string {
	if o.FileOnly {
		return ""
	}
	return envPrefix + strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))
}

// IsList says whether the option can be repeated.
func (o *Option) IsList() bool { return o.Kind == KindList }

// IsBool says whether the flag stands without a value.
func (o *Option) IsBool() bool { return o.Kind == KindBool }

// isLimit says whether "none" is a value.
func (o *Option) isLimit() bool {
	switch o.Kind {
	case KindCount, KindPercent, KindSize, KindDuration:
		return true
	}
	return false
}
