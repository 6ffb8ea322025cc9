package network

import "strconv"

// Error is what is wrong with one word.
type Error struct {
	Word string // "" where the caller knows it: Canonical leaves it out
	Msg  string // goes on after the word: `has no host`
	Hint string

	// Unknown is the part that was none of Known, for a caller who can guess what was meant.
	Unknown string
	Known   []string
}

func (e *Error) Error() string {
	if e.Word == "" {
		return e.Msg
	}
	return strconv.Quote(e.Word) + " " + e.Msg
}

func mistake(msg, hint string) *Error { return &Error{Msg: msg, Hint: hint} }
