// Package peek reads what a client's bytes claim to talk to: the server name of a
// TLS hello, the Host of every HTTP/1 request. Bytes in, verdicts out: nothing here
// knows a socket, dials, or decides which names are allowed.
//
// classify.go tells protocols apart; hello.go reads TLS, datagram.go QUIC and DTLS, requests.go the framing
// of HTTP/1 and head.go the head of each request. error.go has the closed set of reasons.
//
// # How a connection is inspected
//
// The gateway has dialled an allowed name and port. What the server says is relayed at
// once, so protocols in which the server speaks first work; the client's bytes go
//
//	Classify ── TLS ───▶ ServerName, compare; after a HelloRetryRequest once more; then raw
//	         ├─ HTTP ──▶ Requests, for as long as the connection lasts
//	         ├─ Other ─▶ raw
//	         └─ HTTP2, SSLv2, Proxy, SOCKS: nothing that a name can be read of; refused
//
// and of a flow of datagrams each is asked by [QUIC] and [DTLSServerName].
//
// # No byte is held for good
//
// [Classify] wants more as long as the first line that isn't empty isn't over. It decides:
//
//   - at once: a byte that no first line of a request has (NUL, a control character in
//     the first word), "HTTP/" anywhere in the line, GET and a blank;
//   - at the end of the line: SSH-2.0-x, EHLO x, *1, PING and the like are Other;
//   - after 8 KiB of a line at the latest.
//
// A client may say less than a line and wait for the answer (XMPP, git://, a shell's
// "nc"). Therefore what Classify has seen and wants more of may be sent on at once: a server
// does nothing for a request whose first line isn't over. The gateway keeps a copy, goes on
// asking with all of it, sends nothing of the read that decides before it has decided,
// and subtracts what is sent already from what is then let through. At the client's end it
// asks [ClassifyAll] before it passes the end on. Where a rule demands TLS or HTTP there is
// nothing to gain, and it holds everything. What is held afterwards is bounded too: [MaxHello],
// [MaxHead].
//
// # The second hello of TLS 1.3
//
// A server that wants another key share answers the hello with a HelloRetryRequest, and takes the
// server name of the second hello, which has to be the same (RFC 8446, section 4.1.2); OpenSSL's
// doesn't check that. So what the client sends behind its first hello is sent on record by record
// ([Between]), and what is of the handshake waits for [ServersHello]: a retry has the next hello
// checked like the first one; a final hello makes the connection raw; with anything else the
// handshake goes no further.
//
// # Strict, because a server may be lenient
//
// A request that a server could read in two ways is refused, whatever the RFC recommends:
// a target inside, together with a lenient server outside, must not get a second
// request past the check in the body of the first. Refused are: HTTP/0.9 (a request line without
// a version names a host in its target, or none); HTTP/1.0 without Host; lines that end
// in LF alone; empty lines before a request; folded lines; blanks before a colon; a second
// Content-Length, even an equal one; Transfer-Encoding beside it, in HTTP/1.0, or other than
// exactly "chunked"; host, content_length and their like spelt with underscores; CONNECT.
// Also refused, since Node takes them for requests: RTSP and Icecast's ICE.
//
// # What this doesn't stop
//
//   - Inside of TLS nothing is seen. Where many sites share a server, the Host of a
//     request (or the :authority of HTTP/2) in there may be another than the name of the hello
//     ("domain fronting"); it is up to the server to refuse it, by 421.
//   - Encrypted Client Hello: the name that can be read is the outer one; a server
//     that has the key serves the inner one. Browsers send the extension without
//     meaning it, and it is made so that the two can't be told apart.
//   - A renegotiation of TLS 1.2 and before is encrypted, and may name another server: it is up to
//     the server to refuse that. TLS 1.3 has none.
//   - Other protocols that carry a name of their own (host= in git://, the to= of XMPP), and
//     TLS that begins later in a connection (STARTTLS, PostgreSQL's SSLRequest): Other is raw.
//   - A server that does not read a body that it was sent (some do so for GET, or having
//     refused an expectation) takes the body for the next request. Refusing bodies would be
//     the only help. Nor is there help against one that heeds X-Forwarded-Host,
//     X-Original-URL or the like of anybody.
//   - A server that ignores the first line of a connection, being none of HTTP, and goes on
//     reading requests; or that takes one with control characters in its method.
//   - After 101 a connection is raw.
//   - QUIC: a hello could be read, its keys being no secret; it is refused instead.
package peek
