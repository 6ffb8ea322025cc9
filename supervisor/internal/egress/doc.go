// Package egress is the way out of a run's own network, and the only one: a gateway
// that lives in the caller's network and serves sockets that were made inside.
//
// # Theory of operation
//
//	target ── connect(any address) ──▶ kernel, inside ── TPROXY ──▶ sockets made inside,
//	                                                               served here
//	                                                                  │ name, port, rules
//	                                                                  ▼
//	                                                  resolve, check, dial, relay
//
// In the run's own network namespace every address is lo's own, so that packets go
// nowhere but through nftables, which hands what is meant for others to one socket
// per protocol and family (see package netns). Nothing inside speaks to a device,
// and nothing of TCP is done in user space: bytes go from socket to socket.
//
// A resolver of ours answers all DNS queries, whatever address they are sent to. A name
// that may be reached gets an address of its own for the rest of the run, so that a
// connection to that address tells which name it is for. The gateway looks the name's real
// addresses up once for each connection, judges them, and dials one of them.
//
// What the client then says must agree: the server name of a TLS handshake, and the
// Host of every request of plain HTTP. Other protocols are judged by name and port
// alone.
//
// Each connection has two goroutines, one for each direction; datagrams between two addresses have two as well.
// Where only small messages pass for a while, package poll does it in their stead until something else comes.
// Whoever waits holds no buffer and no pipe. A reset, an end in one direction and a slow reader are what they are on
// the other side, too.
//
// Three things are checked, in this order: the name and port (or the address, where the
// program connects to one), each address that the name has, and what the client says.
//
// On systems where nothing leads a run here, programs ask for what they want: Proxy is one of HTTP, before the same flows (package proxied reads what it is asked for).
//
// Where no network namespace can be had, package emulate makes the run's socket calls itself, and
// gives what comes of them to the same flows.
//
// # Reading order
//
// gateway.go is what a gateway has, its limits and its end; flow.go judges a flow, dials it and relays both ways;
// dial.go finds the addresses that may be dialled, and conn.go dials and moves bytes; inspect.go looks at what clients
// say (package peek), resolve.go answers questions (package names), records.go keeps attempts.
//
// Those know no system. What leads to them on Linux does: gateway_linux.go takes the sockets of a run, udp_linux.go its datagrams,
// publish_linux.go leads in from outside, supervised_linux.go serves package emulate, observe_linux.go sees what nothing serves,
// and process_linux.go finds whose an attempt is.
//
// # What it doesn't see
//
// What is inside TLS: a server that serves other sites under an allowed name, or
// passes on what it is told, is reached with all that it does. Names behind an
// encrypted ClientHello (ECH): what is checked is the outer one.
package egress
