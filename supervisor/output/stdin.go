package output

// Kind is what the caller's standard input is, as far as it matters.
type Kind uint8

const (
	// Null reads nothing: /dev/null, or no standard input at all. The target gets a /dev/null of its own.
	Null Kind = iota
	// Teed is an anonymous pipe. The target gets a pipe, and what it doesn't read stays in the caller's.
	Teed
	// Relayed is anything else. The target gets a pipe, and holds nothing of the
	// caller's file, socket, device or terminal.
	Relayed
)

func (k Kind) String() string {
	switch k {
	case Null:
		return "null"
	case Teed:
		return "teed"
	}
	return "relayed"
}
