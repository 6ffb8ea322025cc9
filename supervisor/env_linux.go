package supervisor

// childEnv is the environment of the child itself, which never is the target's.
func childEnv() []string { return []string{} }
