// Package sockets is how a server is reached: where its sockets are, who is at the other end of a connection as the kernel says, and
// bounds for those who connect. It knows nothing of what is asked.
package sockets
