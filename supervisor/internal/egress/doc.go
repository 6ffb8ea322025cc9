// Package egress is the way out of a run's own network, and the only one: a gateway
// that lives in the caller's network and serves sockets that were made inside.
//
// # Theory of operation
//
//	target ── connect(any address) ──▶ kernel, inside ── TPROXY ──▶ sockets made inside,
//	                                                               served here
//	                                                                  │ name, port, rules
//	                                                                  ▼
//	                                                  resolve, check, dial, splice
//
// In the run's own network namespace every address is lo's own, so that packets go
// nowhere but through nftables, which hands what is meant for others to one socket
// per protocol and family (see package network). Nothing inside speaks to a device,
// and nothing of TCP is done in user space: bytes go from socket to socket by splice(2).
//
// Names are asked of a resolver of our own, whatever address the question is sent
// to. A name that may be reached gets an address of its own for the rest of the run,
// which says at connect time what name was meant. What addresses it really has is
// asked once for a connection, judged, and then dialled, with no name in between.
//
// What the client then says must agree: the server name of a TLS handshake, and the
// Host of every request of plain HTTP. Whoever speaks neither is known by its name
// and port alone.
//
// All TCP is served from one goroutine, in tasks that read as if they blocked (package
// loop); datagrams, questions and whatever takes time have goroutines of their own.
//
// Three things are checked, in this order, and each is the last word of what comes
// before it: the name and port (or the address, for those who name one), each
// address that the name has, and what the client says that it talks to.
//
// Where no network namespace can be had, package emulate makes the run's socket calls itself, and
// gives what comes of them to the same flows.
//
// # Reading order
//
// gateway_linux.go takes sockets, flow_linux.go judges what arrives at them, dial_linux.go finds the
// addresses that may be dialled. tcp_linux.go and udp_linux.go carry both kinds; claim_linux.go looks at what
// clients say (package peek), copy_linux.go moves the rest. resolve_linux.go answers questions (package names).
// records_linux.go keeps attempts, process_linux.go finds whose they are, close_linux.go ends it all.
//
// # What it doesn't see
//
// What is inside TLS: a server that serves other sites under an allowed name, or
// passes on what it is told, is reached with all that it does. Names behind an
// encrypted ClientHello (ECH): what is checked is the outer one.
package egress
