//go:build !confinecover

package supervisor

// childEnv is the environment of the child itself, which never is the target's.
// One processor is enough for a list of steps: fewer threads, less to set up.
func childEnv() []string { return []string{"GOMAXPROCS=1"} }
