package places

// What of its descriptors a process has for sandboxes: three quarters, and so many for one: 28 while it waits, and more while it is built and runs.
const each = 40

// ByDescriptors is how many sandboxes this process has descriptors for, at least one.
func ByDescriptors() int { return byDescriptors(Descriptors()) }

func byDescriptors(limit int) int {
	if limit == 0 {
		return 1 << 20
	}
	return max(1, limit*3/4/each)
}
