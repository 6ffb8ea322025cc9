//go:build !confinecover

package supervisor

// childEnv is the environment of the child itself, which never is the target's.
// One processor is enough for a list of steps: fewer threads, less to set up. There is
// little to collect, and collecting would make threads that count (see spareThreads).
func childEnv() []string { return []string{"GOMAXPROCS=1", "GOGC=off"} }
