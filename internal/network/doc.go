// Package network compiles the words of --allow-network, --deny-network and
// --allow-port into rules, and decides by them. It has the only reader of these
// words and the only evaluator: the planner, explain and the gateway ask it, so
// that what is printed is what is done. It is pure, knows no sockets, and imports
// nothing of ours.
//
//	words ─▶ Canonical (kept in the policy) ─▶ Compile, once for a run ─▶ Rules ─▶ Ask, Name, Connect, Resolved, …
//
// [Rules] are a value that is the same on every system and goes with the plan. Read word.go for
// words, rules.go for what one is about, evaluate.go for what decides.
//
// # Words
//
//	example.com            this name, on the ports of --allow-port, or any
//	example.com:443        on this port, whatever --allow-port says: who names a
//	                       port with a host means that port
//	*.example.com          every name below example.com, at any depth, and not
//	                       example.com itself
//	api.*.com, a-*.b.org   a star elsewhere stands for one label or a part of one
//	                       (a part may be empty): one that crossed dots would let
//	                       who owns any name below .com choose the rest
//	*                      every name. As a denied word every address as well
//	10.0.0.0/8, [::1]:80   addresses; 10.* and 192.168.* are ranges, too
//	localhost, localhost:80  the caller's own loopback. Names below localhost and
//	                       loopback addresses are words for the same place
//	https://h/*            port 443 (or https://h:8443/*), and TLS only
//	http://h/api/*         port 80, plain HTTP only, and paths below /api/ only;
//	                       http://h/api is this path alone
//
// [Canonical] and [CanonicalDeny] give the one form in which a word is kept. What
// they don't know in full they refuse: another reader of the same word might
// take it for another host. A path after https is refused: it is encrypted. A denied
// word has no path, and its scheme is its port.
//
// Names are compared without regard to case and to one dot at the end. A name that is
// odd in any other way (empty labels, NUL, blanks, letters beyond ASCII, a last label
// that some resolver takes for a number) is never allowed, whatever the rules.
//
// # What decides
//
// Denied beats allowed, whichever is more specific. Nothing allowed is nothing
// reachable. A name is allowed by words of names; a bare address only by words of addresses.
//
// An address that an allowed name turns out to have, or that a range covers, is
// refused when it is [Internal], unless
//
//   - a word names it: an address, or a range that lies within the internal one.
//     0.0.0.0/0 names no private address, nor does 192.0.0.0/8; 192.168.0.0/16 does;
//   - the name lies below .local, .internal, .lan or .home.arpa, and a word says so
//     literally (*.local; not *): one's own services may be private, link-local or on loopback;
//   - Policy.BlockInternal is false: then whatever the name or the range leads to.
//
// Metadata services of clouds give away credentials to whoever asks: a word has to
// name exactly their address. Neither a range nor BlockInternal is enough, nor one's
// own names: metadata.google.internal is one of them. Multicast has to be named. The
// unspecified addresses (on Linux these are loopback by another name) and the
// ranges that names stand for inside are never allowed.
//
// # What this does not stop
//
//   - Whoever controls an allowed name, or shares its server, is reached by it.
//   - [Rules.Needs] says what the first bytes have to be. Who allows
//     example.com:443 without a scheme allows any protocol there.
//   - Paths are compared with regard to case, after decoding once. What could be
//     another path to a server that decodes otherwise is refused, as far as such servers
//     are known; what a server makes of an allowed path is its own business.
package network
