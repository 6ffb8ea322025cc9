// Package hint keeps what to do about an error, or a notice, apart from what it says, so that
// nobody has to find the one in the other. Text is both, for whoever only prints it.
package hint

import (
	"errors"
	"strings"
)

// Remedied is an error that knows what to do about it. The text of Error ends with the remedy,
// as [Text] writes it, unless that is empty.
type Remedied interface {
	error
	Remedy() string
}

type remedied struct {
	error
	remedy string
}

// FewDescriptors is what to do where a process got EMFILE for what it needs to start a run: some 60 are enough for one.
const FewDescriptors = "this process may open too few files: ulimit -n 64 gives it more"

// New makes an error with a remedy.
func New(text, remedy string) error { return &remedied{errors.New(text), remedy} }

// With adds a remedy to an error.
func With(err error, remedy string) error { return &remedied{err, remedy} }

func (e *remedied) Error() string  { return Text(e.error.Error(), e.remedy) }
func (e *remedied) Unwrap() error  { return e.error }
func (e *remedied) Remedy() string { return e.remedy }

// Split gives what an error says and what to do about it, which is empty where nobody knows.
func Split(err error) (text, remedy string) {
	text = err.Error()
	var r Remedied
	if errors.As(err, &r) {
		remedy = r.Remedy()
	}
	if remedy != "" { // at the end also when others have put words before it
		text = strings.TrimSuffix(text, Text("", remedy))
	}
	return text, remedy
}

// Text is what is said and what to do about it, one below the other.
func Text(text, remedy string) string {
	if remedy == "" {
		return text
	}
	return text + "\nhint: " + remedy
}

// Notice is something that the user should know, and what to do about it.
type Notice struct{ Text, Remedy string }

func (n Notice) String() string { return Text(n.Text, n.Remedy) }

// MarshalText makes a string of it in JSON.
func (n Notice) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// Notices are those of texts without remedies.
func Notices(texts []string) (all []Notice) {
	for _, text := range texts {
		all = append(all, Notice{Text: text})
	}
	return all
}
