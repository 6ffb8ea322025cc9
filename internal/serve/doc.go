// Package serve is the local API: sandboxes and runs by HTTP, on a unix socket of the caller's own or on a TCP address with tokens.
//
// [New] makes the handler of a [Server]; [Listen] opens what it listens on. Who asks is known before anything is looked at: on
// a unix socket by the kernel's word on the peer's uid, on TCP by a token; what names another host, or comes from a page
// in a browser, is refused. Every error is a problem document (RFC 9457) with a code, and a hint where there is a remedy.
//
// The routes are one table (routes.go), which openapi.json has to agree with. What keeps sandboxes, processes and their output
// is package sandboxes; here is only how they are asked for.
package serve
