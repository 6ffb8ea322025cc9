// Package snapshot keeps what is in the files of sandboxes, in a directory that is an OCI image layout.
package snapshot
