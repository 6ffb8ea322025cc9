package confine

// Setting is one thing that was said about one option, and where.
type Setting struct {
	Option string // Option.Name
	// Values are the words as they were said. Of a list that is empty, it means
	// that what was said at weaker places is dropped.
	Values []string
	Source string // "flag --time-limit", "environment CONFINE_TIME_LIMIT", "/etc/confine/confine.toml:3", "profile testing"
}

// Sources is everything that Resolve looks at; it asks nothing else of the process.
type Sources struct {
	Flags   []Setting // in the order of the command line, one per flag given; Source may be empty. Bools say "true" or "false"
	Environ []string  // as os.Environ gives it

	Dir        string // current directory, absolute; empty if there is none
	Home       string // $HOME
	ConfigHome string // $XDG_CONFIG_HOME; empty: ~/.config
	DataHome   string // $XDG_DATA_HOME; empty: ~/.local/share
	SystemFile string // "/etc/confine/confine.toml"; empty: none
	UID        int    // who must own the list of trusted files

	Config []byte // the text of the file that --config names, when it isn't to be read
}

// Invocation is how a command is run and reported, which is no part of the policy.
type Invocation struct {
	Profile   string
	Config    string // --config, absolute
	Report    string // absolute path or "fd:N"; empty: none
	Events    string // absolute path or "fd:N"; empty: none
	JSON      bool
	ExitCodes string // "normalized", "gnu" or "simple"
	Log       string // "quiet", "normal" or "verbose"
	LogFormat string // "text" or "json"
	TTY       string // "auto", "always" or "never"
}

// Resolved is what all places together say.
type Resolved struct {
	Policy     Policy
	Invocation Invocation
	// Origins tells, by option name, what was said where, weakest first. Of a
	// scalar the last one holds; what a list dropped is not in it.
	Origins map[string][]Setting
	Notices []string // for the user, one line each, without prefix
	Files   []string // files that were read and count, weakest first
	// Project is the discovered confine.toml, whether it is trusted or not.
	Project string
	// Protected are files that must never be writable inside: those that say what
	// the next run may do.
	Protected []string

	where map[string][]where // by option; see From
}

// UsageError is a mistake in what was asked for. Nothing was started.
type UsageError struct {
	Msg  string
	Hint string // the remedy, or empty
	Err  error  // the errno behind it, or nil
}

func (e *UsageError) Error() string {
	if e.Hint == "" {
		return e.Msg
	}
	return e.Msg + "\nhint: " + e.Hint
}

func (e *UsageError) Unwrap() error { return e.Err }
