package files

// Peaks are the most that was seen of one process, now and then while it names files:
// what only a process knows of itself while it lives.
type Peaks struct {
	Descriptors int64 // room in its table, which grows and doesn't shrink
}
