package linux

// GrowStack makes a goroutine's stack large enough for what a run does. The runtime doubles a stack whenever it is full, and
// each time copies it frame by frame, so it is called where the stack is short.
func GrowStack() { growStack(false) }

//go:noinline
func growStack(use bool) byte {
	if use { // never: what isn't used isn't cleared
		var room [24 << 10]byte
		fill(&room)
		return room[1]
	}
	return 0
}

//go:noinline
func fill(room *[24 << 10]byte) { room[0]++ }
