// Package netns plans what a run's own network namespace leads to: netlink messages
// that make every address lo's own and let nftables hand what is meant for others to
// a gateway (TPROXY), and the sockets of that gateway, which are made inside.
//
// # Theory of operation
//
//	connect(93.184.216.34:443)
//	   │  local route: the packet goes out of lo, and comes in by lo
//	   ▼
//	prerouting: from the gateway, for loopback, for the own address? accepted
//	            port 53?                                             the resolver's socket
//	            other TCP and UDP?                                   the gateway's socket
//	            echo requests for what is no name's?                 dropped
//
// TPROXY leaves addresses as they are: an accepted connection's own address is the
// one that was meant, and no connection is tracked. There is no device but lo, so a
// packet that nobody takes goes nowhere.
//
// The messages are always the same, made by a library when confine is built, and
// sent by the inside, which has no room for libraries: see gen.
//
// # Fallbacks
//
// Without nftables, or without TPROXY in it (Linux 4.19), the gateway's sockets are
// bound to the ports that rules name, of every address, and others are refused by
// the kernel. Without IPv6 there is IPv4.
package netns
