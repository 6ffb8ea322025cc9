package config

import (
	"slices"

	"github.com/confine-run/confine/internal/view"
)

// Ask is one question about a plan: may a path, a host or a system call be used?
type Ask struct {
	Kind   AskKind
	Word   string // a path, HOST[:PORT], or NAME[,ARGUMENT…]
	Access string // of a path: one of Accesses
}

// AskKind is what a question is about.
type AskKind string

// The kinds of questions.
const (
	AskPath    AskKind = "path"
	AskHost    AskKind = "host"
	AskSyscall AskKind = "syscall"
)

// Accesses are what can be asked about a path.
func Accesses() []string { return []string{"read", "write", "create", "exec"} }

// The answers. A system call of which only the name was given can depend on its
// arguments.
const (
	AnswerYes     = "yes"
	AnswerNo      = "no"
	AnswerDepends = "depends"
)

// Answer is what will be, by which rule, and who said so.
type Answer struct {
	Kind   AskKind `json:"kind"`
	Asked  string  `json:"asked"`
	Access string  `json:"access,omitempty"`
	Answer string  `json:"answer"`
	// Reason is an identifier of what decided, Rule the rule in words; it is empty
	// where no rule speaks of it.
	Reason string      `json:"reason"`
	Rule   string      `json:"rule,omitempty"`
	Origin view.Origin `json:"-"`
	// From is the place that the rule comes from: a flag, a variable, FILE:LINE, a
	// profile, or "built in".
	From    string `json:"from,omitempty"`
	Where   string `json:"where,omitempty"`  // the path inside with its links followed; the host as rules spell it
	At      string `json:"at,omitempty"`     // the path that the rule is about
	Effect  string `json:"effect,omitempty"` // of a system call: "allow", "log", "kill" or "errno NAME"
	Details string `json:"details,omitempty"`
	Hint    string `json:"hint,omitempty"` // what would allow it
	// Cases are the answers of the rules that could decide, when it depends.
	Cases []Answer `json:"cases,omitempty"`
}

// Denied says whether a word of --deny decided, and not the set of secrets.
func (a *Answer) Denied() bool {
	return a.Origin.Option == view.FromDeny && a.Origin != view.FromSecrets
}

// Private says whether the place is the run's own home directory or one for temporary files.
func (a *Answer) Private() bool {
	return a.Origin.Option == view.FromHome || a.Origin.Option == view.FromTempDir
}

// Yes says whether it is allowed in any case.
func (a *Answer) Yes() bool { return a.Answer == AnswerYes }

// From says where a word of an option, given in its canonical form, was set; of a scalar
// the word may be empty. It is empty when it was set nowhere.
func (r *Resolved) From(option, word string) string {
	return r.lastSource(option, word).Source
}

func (r *Resolved) lastSource(option, word string) (last Setting) {
	for _, s := range r.Origins[option] {
		if word == "" || slices.Contains(s.canonical, word) {
			last = s
		}
	}
	return last
}
