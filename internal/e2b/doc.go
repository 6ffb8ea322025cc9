// Package e2b speaks E2B's wire API, as far as its own SDKs for Python and JavaScript need it to make sandboxes, run commands in
// them, and read, write and watch their files, and to keep and fork them. What keeps the sandboxes is package sandboxes; which policy they have is said
// by whoever makes a [Server].
//
// There are two sides of it. The control API (sandboxes.go, snapshots.go, live.go) is JSON over HTTP under the owner's key. What E2B has running in each
// sandbox, envd, is here the server itself: files over plain HTTP (files.go), and two services by the Connect protocol (connect.go),
// process.Process (process.go) and filesystem.Filesystem (filesystem.go, watch.go). A request to it names the sandbox in a header, and
// has that sandbox's own token. Both SDKs speak Connect in JSON, and nothing else is spoken here.
//
// [Server] is where to begin.
package e2b
