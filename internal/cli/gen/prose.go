package main

// What the man page and docs/OPTIONS.md say beside the two tables.
const (
	precedence = "For each option, the first of these that says something holds: the flag; the environment variable " +
		"CONFINE_ and the option's name in capitals (CONFINE_TIME_LIMIT); the file of --config, or else a trusted " +
		"confine.toml found upwards from the current directory; the user's file; /etc/confine/confine.toml; the profile. " +
		"\"confine explain\" shows who said what."

	endings = "The exit code of a command that ended by itself is its own. The other codes depend on --exit-codes:"

	outputs = "The report of --report replaces the file under that name when the run has ended, and is written even when the " +
		"sandbox could not be built. It is made as a new file in that directory and renamed: a link is not followed, " +
		"neither one that is there before (which is an error) nor one that the command puts there. fd:N is a " +
		"descriptor that the caller has opened for writing. When a report, the events or the JSON of --json can't be " +
		"written, a line on stderr says so, and a run that would have ended with 0 ends with 1."
)

// exitMeanings says when a status is given; its numbers come from package status.
var exitMeanings = map[string]string{
	"OK":                "exited with 0",
	"FAILED":            "exited with another code",
	"TIMEOUT":           "the wall-clock limit",
	"CPU_LIMIT":         "the limit on CPU time",
	"MEM_LIMIT":         "the memory limit",
	"KILLED_TERM":       "SIGTERM, not sent for a limit",
	"KILLED_KILL":       "SIGKILL, not sent for a limit",
	"KILLED_SIGNAL":     "another signal n",
	"FORBIDDEN_SYSCALL": "killed by the system call filter",
	"SANDBOX_DENIED":    "exited with another code after something was refused",
	"EXEC_FAILED":       "not found, or not executable",
	"INTERNAL_ERROR":    "the sandbox failed, or can't be enforced",
}

// variables are what the environment says beside the twins of options.
var variables = []struct{ name, means string }{
	{"TRACEPARENT", "the trace that the run belongs to (W3C Trace Context); its trace-id stands in the report"},
	{"SHELL", "what \"confine shell\" starts"},
	{"XDG_CONFIG_HOME", "where confine/confine.toml, the user's file, is looked for; otherwise in ~/.config"},
	{"XDG_DATA_HOME", "where the list of trusted files is kept; otherwise in ~/.local/share"},
}

// examples are what people come for.
var examples = []struct{ words, means string }{
	{"confine --profile testing -- python3 -m pytest", "a test suite: what it writes to the project is dropped afterwards"},
	{"confine -t 2s -m 64M --exit-codes gnu -- ./a.out <input", "a submitted program, judged"},
	{"confine --json -- ./script.sh", "everything about the run as JSON, its output with it"},
	{"confine --workdir rw --report report.json -- make", "a build that may write to its tree"},
	{"confine explain --profile strict -- ./a.out", "what would hold here, and how"},
}
