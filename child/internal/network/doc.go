// Package network makes what a sandbox has of a network of its own: its loopback interface, routes, and the
// sockets that are all its ways to anywhere, which it hands out; and looks what found no way.
package network
