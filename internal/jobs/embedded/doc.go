// Package embedded is a JetStream of one user on one host: a process in the background that holds the server and a worker, on a
// loopback address with a token that only the user can read, as long as there is something to do.
package embedded
