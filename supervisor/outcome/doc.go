// Package outcome makes of what is known at the end of a run the part of the report that says how it ended: status, cause, and reason.
// It is the same on every system. Each fact comes from whoever caused it or was told of it; nothing here asks the system.
package outcome
