// Package names answers the run's DNS queries, and gives each name that the rules
// allow an address of its own to stand for it inside.
//
//	query ──▶ Server.Answer ──▶ Allowed? ── no ──▶ REFUSED, and Refused is told
//	               │                │ yes
//	               │             Exists? ── Resolver ──▶ the caller's resolver
//	               │                │ yes
//	answer ◀───────┴───────────── Pool: one IPv4 and one IPv6 address a name
//	                                ▲
//	a connection to 198.18.0.16 ────┘ is one to the name that was asked for
//
// Bytes go in and bytes come out: there are no sockets here, and no goroutines.
// Whoever has the sockets calls [Server.Answer] for each datagram or framed
// message, bounds how many calls there are at a time, and asks [Pool.Name] what a
// connection is meant for and [Resolver.Addresses] where that is today.
//
// server.go decides, message.go reads and writes the messages, resolver.go asks outside, and address.go has
// names, their addresses and the pool.
//
// # What leaves the host
//
// A lookup of the addresses of an allowed name, asked for by A or AAAA. Nothing else does:
// names that aren't allowed, types other than these two, reverse lookups, other
// classes and operations, and whatever else a message carries are answered, or
// refused, from here. So TXT and the like are no tunnel, and HTTPS records,
// which could have a client encrypt the server's name (ECH), don't exist.
//
// # What an address means
//
// Addresses are given in the order in which names are first asked for: IPv4 from
// 198.18.0.16, IPv6 from fd63:6f6e:6669:6e65::10. A name keeps its two for the whole
// run, and no other name ever gets them, so that a connection to an address that
// was learnt long ago means the same name still. There are [MaxNames] of them;
// then names that are new are a SERVFAIL, told as [WhyTooManyNames].
//
// That a name has an address is no permission: rules about ports, and about
// the addresses that the name really has, are for whoever dials.
//
// # What this doesn't stop
//
//   - Under a pattern (*.example.org) the labels below it are the target's to
//     choose, and a lookup carries them to whoever serves that zone, who can
//     answer with one bit: the name exists, or it doesn't. Who allows a pattern
//     trusts the zone.
//   - How long a lookup takes tells whether the caller's resolver, or the cache
//     here, knew the name. The cache is the run's own; the resolver isn't.
//   - A name that has records but no address is told as one that doesn't exist:
//     the libraries beneath don't tell the two apart, and neither can be
//     connected to.
package names
