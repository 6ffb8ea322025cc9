// Package process is the backend of Linux: sandboxes of namespaces, cgroups, Landlock and system call filters, or of as
// much of that as the host gives.
//
// Read plan_linux.go first: a planner asks each part in turn (tier, file system, network, limits, filter), and the last
// of them words the ledger. run_linux.go has plans carried out by package supervisor, on the highest tier that holds;
// backend_linux.go is the seam of package backend. ask_linux.go and lastwords_linux.go answer afterwards.
package process
