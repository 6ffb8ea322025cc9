// Package machine connects the caller's streams, terminal and signals to a command in a virtual machine.
package machine
