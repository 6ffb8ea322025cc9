// Package task holds a sandbox and its processes on systems where all of the supervisor is outside: Windows and macOS. It has the clocks, the
// stages of stopping, the streams with their caps, the first cause and the reports; what a system does by itself is behind
// two interfaces.
//
//	backend.Open → the backend builds a [System] → [New] → Box, which is a backend.Sandbox
//	Box.Start    → pipes and relays → System.Start → [Target] → Task, which is a backend.Process
//	Task.wait    → outcome.Verdict → status.Report
//
// What a system counts or is told of it hands to the Box: [Box.End] for a limit of all that ends everybody, [Box.Reached] for one
// that refused something and ended nobody.
package task
