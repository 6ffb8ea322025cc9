// Package guest is the first process of a machine: the same program as on the host, started by the kernel of the guest. It makes
// of the host's files, which come over 9p as the sandbox around the machine shows them, the root directory; and then does what the host says (package
// wire): it builds a sandbox of processes, as on any host, and starts processes in it.
package guest
