package sockets

import "net"

// abandon closes a socket as the end of its process does: its name stays.
func abandon(l net.Listener) {
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
}
